//! The actor of an entry: the user whom the server accepted, a client's mere claim, and the reason.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Arc;

use probity_format::keys::{RootKey, Secret};
use probity_log::reader::{Filter, Found, Reader};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName};
use probity_policy::Policy;
use probity_proxy::{Backend, LogSource, Proxy, ProxyConfig, Upstream};

use crate::support::{Redis, Seen, config, script, start, talk};

const USERS: &str = "--user alice on >a ~* &* +@all --user mallory on >m ~* &* +@all";

const POLICY: &str = "version = 1\n[[key]]\npattern = 'user:{subject}'\npurpose = 'service'\n\
    [[actor]]\nprincipal = 'alice'\npurpose = 'support'\n\
    [[actor]]\nclient = 'billing'\npurpose = 'invoicing'";

fn redis() -> Redis {
    Redis::start(&USERS.split(' ').collect::<Vec<_>>())
}

/// The configuration with the policy of these tests.
fn with_policy(redis: &Redis) -> ProxyConfig {
    ProxyConfig {
        policy: Arc::new(Policy::parse(POLICY).unwrap()),
        ..config(redis)
    }
}

fn record(lines: &str) -> Vec<Seen> {
    let redis = redis();
    let (proxy, address, recorder) = start(&with_policy(&redis));
    talk(address, &script(lines), usize::MAX);
    proxy.stop();
    recorder.entries()
}

/// Actor and submitter, and what of it is only claimed.
fn from(seen: &Seen) -> String {
    let claimed: Vec<_> = seen.claimed.fields().collect();
    format!(
        "{} by {:?} {}",
        seen.actor,
        seen.submitter,
        claimed.join(" ")
    )
}

/// Entries did not say who had handed them in, as the server had accepted them. A login that fails changes
/// nothing, RESET ends it, and a name that a client gives itself is a claim.
#[test]
fn entries_bear_the_user_whom_the_server_accepted() {
    let lines = "GET user:1\nAUTH alice WRONG\nGET user:1\nAUTH alice a\nGET user:1\nAUTH mallory WRONG\n\
                 GET user:1\nHELLO 3 AUTH mallory m\nGET user:1\nRESET\nGET user:1\nCLIENT SETNAME alice\nGET user:1";
    let told: Vec<_> = record(lines).iter().map(from).collect();
    assert_eq!(
        told,
        [
            "default by \"\" ",
            "alice by \"\" actor",
            "default by \"\" ",
            "alice by \"alice\" ",
            "alice by \"alice\" ",
            "mallory by \"alice\" actor",
            "alice by \"alice\" ",
            "mallory by \"mallory\" ",
            "mallory by \"mallory\" ",
            "default by \"\" ",
            "alice by \"\" actor",
        ]
    );
}

/// A purpose that follows from a name which the client gave itself is claimed with it; one that the key's
/// rule or a proven user has is not.
#[test]
fn a_purpose_that_follows_from_a_claim_is_claimed() {
    let lines = "GET user:1\nCLIENT SETNAME billing\nGET user:1\nAUTH mallory m\nGET user:1\nAUTH alice a\nGET user:1";
    let entries = record(lines);
    let told: Vec<_> = entries
        .iter()
        .filter(|seen| seen.action == "read")
        .map(|seen| format!("{}: {}", seen.purpose, from(seen)))
        .collect();
    assert_eq!(
        told,
        [
            "service: default by \"\" ",
            "invoicing: billing by \"\" actor purpose",
            "service: mallory by \"mallory\" ",
            "support: alice by \"alice\" ",
        ]
    );
}

const ROLES: &str = "version = 1\n[defaults]\ncontroller = 'Example GmbH'\nbasis = 'none given'\n\
    [[actor]]\nclient = 'billing'\ncontroller = 'Billing Corp'\nprocessor = 'Billing Hosting'\nbasis = 'contract'\n\
    [[actor]]\nclient = 'shop'\nfor_users = true\ncontroller = 'Shop Corp'\n\
    [[actor]]\nclient = 'bare'";

/// A logged-in client that called itself `billing` got its controller, processor and legal basis
/// without a mark. A name gives roles only where the policy says so, and they are marked as
/// claimed.
#[test]
fn roles_follow_from_a_name_that_a_client_gives_itself_only_as_a_claim() {
    let redis = redis();
    let config = ProxyConfig {
        policy: Arc::new(Policy::parse(ROLES).unwrap()),
        ..config(&redis)
    };
    let (proxy, address, recorder) = start(&config);
    let lines = "CLIENT SETNAME billing\nGET user:1\nPUBLISH c x\nCLIENT SETNAME bare\nGET user:1\nAUTH mallory m\n\
                 CLIENT SETNAME billing\nGET user:1\nPUBLISH c x\nCLIENT SETNAME shop\nGET user:1";
    talk(address, &script(lines), usize::MAX);
    proxy.stop();
    let entries = recorder.entries();
    let told: Vec<_> = entries
        .iter()
        .filter(|seen| ["read", "publish"].contains(&seen.action.as_str()))
        .map(|seen| {
            let roles = [&seen.controller, &seen.processor, &seen.basis].map(String::as_str);
            format!("{}: {}", roles.join(","), from(seen))
        })
        .collect();
    assert_eq!(
        told,
        [
            "Billing Corp,Billing Hosting,contract: billing by \"\" actor purpose",
            "Billing Corp,Billing Hosting,contract: billing by \"\" actor purpose",
            "Example GmbH,,none given: bare by \"\" actor",
            "Example GmbH,,none given: mallory by \"mallory\" ",
            ",,: mallory by \"mallory\" ",
            "Shop Corp,,none given: mallory by \"mallory\" purpose",
        ]
    );
}

/// A password that all clients share proves the user `default` and no client's name.
#[test]
fn a_shared_password_proves_no_name_that_a_client_gives_itself() {
    let redis = Redis::start(&["--requirepass", "s3"]);
    let upstream = Upstream::parse(&format!("redis://:s3@127.0.0.1:{}", redis.port())).unwrap();
    let config = ProxyConfig {
        policy: Arc::new(Policy::parse(ROLES).unwrap()),
        ..ProxyConfig::new(config(&redis).listen.remove(0), Backend::Upstream(upstream))
    };
    let (proxy, address, recorder) = start(&config);
    let lines = "AUTH s3\nCLIENT SETNAME billing\nGET user:1";
    talk(address, &script(lines), usize::MAX);
    proxy.stop();
    let entries = recorder.entries();
    let read = entries.iter().find(|seen| seen.action == "read").unwrap();
    assert_eq!(read.controller, "Example GmbH");
    assert_eq!(from(read), "default by \"default\" ");
}

/// Entries did not say which policy was in force, and which of its rules had decided.
#[test]
fn entries_name_the_policy_and_its_rule() {
    let entries = record("GET user:1\nGET other\nPUBLISH c x");
    let digest = *Policy::parse(POLICY).unwrap().digest();
    assert!(entries.iter().all(|seen| seen.policy == Some(digest)));
    let rules: Vec<_> = entries.iter().map(|seen| seen.rule.as_str()).collect();
    assert_eq!(rules, ["key:user:{subject}", "defaults", ""]);
}

/// The log itself records who handed an entry in; the proxy tells it, for each entry and not each thread.
#[test]
fn the_log_holds_submitter_claims_and_rule() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let root = || RootKey::new(Secret::new([7; 32]));
    let log = Log::create(
        &path,
        "log.example",
        &root(),
        StreamConfig::default(),
        Options::default(),
    )
    .unwrap();
    let stream = StreamName::new("proxy").unwrap();
    log.create_stream(&stream, StreamConfig::default()).unwrap();
    let redis = redis();
    let source = Arc::new(LogSource::new(log.clone(), stream.clone()).unwrap());
    let proxy = Proxy::start(&with_policy(&redis), &source).unwrap();
    for lines in [
        "AUTH alice a\nGET user:1",
        "CLIENT SETNAME billing\nGET user:1",
    ] {
        talk(proxy.addresses()[0], &script(lines), usize::MAX);
    }
    proxy.stop();
    log.close().unwrap();
    let filter = Filter {
        stream: Some(stream),
        ..Filter::default()
    };
    let mut told = Vec::new();
    let mut visit = |found: &Found<'_>| -> Result<(), LogError> {
        let entry = &found.entry;
        let claimed: Vec<_> = entry.claimed.fields().collect();
        let claimed = claimed.join(" ");
        told.push(format!(
            "{} {} {claimed} {}",
            entry.actor, entry.submitter, entry.rule
        ));
        assert!(entry.policy.is_some() && entry.taken.is_some());
        Ok(())
    };
    Reader::open(&path, &root())
        .unwrap()
        .read(&filter, &mut visit)
        .unwrap();
    told.sort();
    assert_eq!(
        told,
        [
            "alice alice  ",
            "alice alice  key:user:{subject}",
            "billing  actor purpose key:user:{subject}",
        ]
    );
}
