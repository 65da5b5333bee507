use hystrix_core as hx;

#[hx::command(crate = hx, timeout = "1s")]
#[hx::command(crate = hx)]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
