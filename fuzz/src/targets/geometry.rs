//! Geometry: the text that fixes a log and its streams.

use probity_format::Version;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::Signer as _;
use probity_format::note::SigningKey;
use probity_format::stream::{StreamConfig, StreamName};

use crate::Target;
use crate::targets::text;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "geometry",
        seeds: geometry_seeds,
        check: check_geometry,
    },
    Target {
        name: "stream_config",
        seeds: config_seeds,
        check: check_config,
    },
    Target {
        name: "stream_name",
        seeds: name_seeds,
        check: check_name,
    },
    Target {
        name: "root_key",
        seeds: key_seeds,
        check: check_key,
    },
];

fn geometry_seeds() -> Vec<Vec<u8>> {
    let key = SigningKey::from_seed("example.com/log", &[1; 32]).expect("the name is a key name");
    let geometry = Geometry::new(
        "example.com/log",
        [2; 16],
        key.verifier_key().clone(),
        [3; 32],
    );
    vec![geometry.expect("the parts fit").encode().into_bytes()]
}

fn check_geometry(data: &[u8]) -> bool {
    let Some(Ok(geometry)) = text(data).map(Geometry::parse) else {
        return false;
    };
    assert_eq!(geometry.encode().as_bytes(), data);
    true
}

fn config_seeds() -> Vec<Vec<u8>> {
    let full =
        "proofs=entry cipher=aes-256-gcm erasable=yes tenant=acme module=crm retention=365 tag=x";
    let full = StreamConfig::from_text(Version::V3, full).expect("the seed is a configuration");
    let older = StreamConfig::journal(Version::V2);
    [StreamConfig::default(), StreamConfig::JOURNAL, full, older]
        .map(|config| config.to_string().into_bytes())
        .to_vec()
}

fn check_config(data: &[u8]) -> bool {
    let read = |version| StreamConfig::from_text(version, text(data)?);
    let configs: Vec<StreamConfig> = Version::ALL.into_iter().filter_map(read).collect();
    for config in &configs {
        assert_eq!(config.to_string().as_bytes(), data);
    }
    assert!(configs.len() <= 1);
    configs.len() == 1
}

fn name_seeds() -> Vec<Vec<u8>> {
    vec![b"default".to_vec(), b"tenant-1.orders_eu.7y".to_vec()]
}

/// A name that is accepted is a single, visible folder.
fn check_name(data: &[u8]) -> bool {
    let Some(Ok(name)) = text(data).map(StreamName::new) else {
        return false;
    };
    assert_eq!(name.as_str().as_bytes(), data);
    assert!(!name.as_str().contains(['/', '\\', '\0']) && !name.as_str().starts_with('.'));
    true
}

fn key_seeds() -> Vec<Vec<u8>> {
    let key = probity_format::keys::Secret::new([3; 32]);
    vec![RootKey::new(key).to_text().as_bytes().to_vec()]
}

fn check_key(data: &[u8]) -> bool {
    let Some(Ok(key)) = text(data).map(RootKey::from_text) else {
        return false;
    };
    assert_eq!(key.to_text().trim(), text(data).unwrap_or_default().trim());
    true
}
