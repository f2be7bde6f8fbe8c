//! Starts the recording proxy in front of the embedded store, sends it commands of Redis, and shows
//! the entries that they became.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use probity_examples::{new_folder, say};
use probity_format::keys::{RootKey, Secret};
use probity_log::reader::{Filter, Reader};
use probity_log::{Log, Options, StreamConfig, StreamName};
use probity_proxy::{Backend, Listen, LogSource, Proxy, ProxyConfig, SinkSource as _};
use probity_store::Store;

const COMMANDS: &[u8] = b"SET user:7 Bea\r\nGET user:7\r\nDEL user:7\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = new_folder()?;
    let path = folder.join("audit");
    let root =
        RootKey::new(Secret::filled(aws_lc_rs::rand::fill).map_err(|_failed| "no randomness")?);
    let log = Log::create(
        &path,
        "example.com/audit",
        &root,
        StreamConfig::default(),
        Options::default(),
    )?;
    let source = Arc::new(LogSource::new(log, StreamName::default())?);
    let store = Arc::new(Store::open(
        &folder.join("data"),
        probity_store::Options::default(),
    )?);
    let listen = Listen::Tcp("127.0.0.1:0".parse()?);
    let config = ProxyConfig::new(listen, Backend::Store(Arc::clone(&store)));
    let proxy = Proxy::start(&config, &source)?;

    // Any client of Redis would do.
    let address = *proxy.addresses().first().ok_or("no address")?;
    let mut client = TcpStream::connect(address)?;
    client.write_all(COMMANDS)?;
    client.shutdown(Shutdown::Write)?;
    let mut replies = String::new();
    client.read_to_string(&mut replies)?;
    say(format_args!("the store replied {replies:?}"))?;

    proxy.stop();
    drop(config);
    Arc::into_inner(store)
        .ok_or("the store is in use")?
        .close()?;
    // Everything appended is durable after this.
    source.flush()?;
    drop(source);

    let reader = Reader::open(&path, &root)?;
    for found in reader.iter(&Filter::default()) {
        let found = found?;
        let entry = found.entry();
        let key = String::from_utf8_lossy(entry.key);
        say(format_args!("recorded {} of {key}", entry.action))?;
    }
    Ok(())
}
