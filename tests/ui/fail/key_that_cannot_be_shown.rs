use hystrix_core::command;

struct Tenant;

#[command(key = tenant)]
fn get(tenant: Tenant) -> Result<u8, String> {
    Ok(1)
}

fn main() {}
