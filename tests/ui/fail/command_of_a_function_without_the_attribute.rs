use hystrix_core::command_of;

fn get() {}

fn main() {
    get();
    command_of!(get).force_open();
}
