#[path = "../../../src/client/host.rs"]
pub mod host;
#[path = "../../../src/client/parked.rs"]
pub mod parked;
