//! Students hand in answers to the questions of lectures, leave, and come back.
//!
//! Read it in this order: `request_context` opens the engine, `account` registers a student, hides one and brings one back,
//! `hidden` lets one edit what lies under placeholders. The rest is an ordinary web application, which meets the
//! library nowhere.

#![forbid(unsafe_code)]

mod account;
mod answers;
mod hidden;
mod pages;
mod problem;
mod request_context;
mod routes;
mod sessions;
mod site;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use probity_disguise::database::Sqlite;
use probity_log::clock::{Clock as _, SystemClock};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::request_context::RequestContext;
use crate::site::Site;

/// Students hand in answers, leave without a trace, and come back.
#[derive(Parser)]
#[command(after_help = "Examples:
  probity init audit
  websubmit --database term.db --log audit
  websubmit --database term.db --log audit --make-teacher ada@example.com")]
struct Arguments {
    /// File of the application's database; made if there is none
    #[arg(long, value_name = "FILE")]
    database: PathBuf,
    /// Folder of a log made by `probity init`, which takes an entry of each disguise; its root key lies beside it
    #[arg(long, value_name = "DIR")]
    log: PathBuf,
    /// Address for browsers; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Make the account with this e-mail address a teacher's and stop, beside a site that runs or not
    #[arg(long, value_name = "EMAIL")]
    make_teacher: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(email) = arguments.make_teacher {
        let database = Sqlite::existing(&arguments.database)?;
        return Ok(RequestContext::new(database, SystemClock::new().now())?.make_teacher(&email)?);
    }
    let site = Arc::new(Site::open(arguments.database, &arguments.log)?);
    serve(&site, arguments.listen).await?;
    site.close()
}

/// Answers requests until the program is told to stop.
async fn serve(site: &Arc<Site>, address: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; give another --listen"))?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let stopped = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    writeln!(
        std::io::stdout(),
        "listening on http://{}",
        listener.local_addr()?
    )?;
    axum::serve(listener, routes::routes(Arc::clone(site)))
        .with_graceful_shutdown(stopped)
        .await?;
    Ok(())
}
