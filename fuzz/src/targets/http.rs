//! Configurations of the HTTP server.

use std::path::Path;

use probity_http::Config;

use crate::Target;
use crate::targets::{is_accepted, text};

pub(super) const TARGETS: &[Target] = &[Target {
    name: "http_config",
    seeds: config_seeds,
    check: check_config,
}];

const CONFIG: &str = r#"
listen = "127.0.0.1:8080"
[log]
folder = "audit"
[database.app]
url = "sqlite:app.db"
spec.leave.file = "leave.toml"
[[token]]
name = "app"
sha256 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
databases = ["app"]
operations = ["register", "apply", "reveal"]
"#;

fn config_seeds() -> Vec<Vec<u8>> {
    vec![CONFIG.into()]
}

/// A file is a configuration, or an error that says what is wrong.
fn check_config(data: &[u8]) -> bool {
    let folder = Path::new("/etc/probity");
    text(data).is_some_and(|text| is_accepted(&Config::parse(text, folder)))
}
