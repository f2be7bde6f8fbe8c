//! `pocket reorganize`: task by task, with a progress bar on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use probity_pocketdb::Extent;
use serde::Serialize;

use super::{NO_ROOM_BESIDE, Place, Vault};
use crate::args::PocketReorganize;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::output::{Output, counted};

#[derive(Serialize)]
struct Reorganized {
    tasks_done: u32,
    tasks: u32,
    finished: bool,
    reorganizations: u32,
}

pub(super) fn run(args: &PocketReorganize, environment: &Environment) -> Result<Status, Failure> {
    interruption::end_gracefully()?;
    let place = Place::of(&args.pocket, environment).when_full(NO_ROOM_BESIDE);
    let mut vault = place.open(true)?;
    let done = if args.cancel {
        vault.cancel_reorganization().map(|()| vault.progress())
    } else {
        let extent = if args.levels {
            Extent::Levels
        } else {
            Extent::Whole
        };
        work(&mut vault, extent, args.steps)
    };
    let done = done.map_err(|error| place.refused(error));
    let reorganizations = vault.instance();
    place.close(vault)?;
    let done = done?;
    if interruption::is_stopped() && !done.finished {
        let (done, tasks) = (done.done, done.tasks);
        return Err(Failure::new("a signal asked to stop")
            .after(&format!("{done} of {tasks} steps are done"))
            .remedy("the same command goes on"));
    }
    let mut output = Output::new();
    if done.finished && !args.cancel {
        output.set_done("the database was reorganised");
    }
    if args.json {
        output.json(&Reorganized {
            tasks_done: done.done,
            tasks: done.tasks,
            finished: done.finished,
            reorganizations,
        })?;
    } else if args.cancel {
        output.line("no reorganisation is under way")?;
    } else if done.finished {
        let count = counted(
            u64::from(reorganizations),
            "reorganisation",
            "reorganisations",
        );
        output.line(&format!("reorganised; {count} so far"))?;
    } else {
        let (done, tasks) = (done.done, done.tasks);
        output.line(&format!(
            "{done} of {tasks} steps are done; the same command goes on"
        ))?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// Runs `steps` tasks, or all that are left, until a signal asks to stop.
fn work(
    vault: &mut Vault,
    extent: Extent,
    steps: Option<u32>,
) -> probity_pocketdb::Result<probity_pocketdb::Progress> {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("reorganising step {pos} of {len} {wide_bar}") {
        bar.set_style(style);
    }
    let mut left = steps.unwrap_or(u32::MAX);
    let progress = loop {
        let progress = vault.reorganize(extent, 1, u64::MAX)?;
        bar.set_length(u64::from(progress.tasks));
        bar.set_position(u64::from(progress.done));
        left -= 1;
        if progress.finished || left == 0 || interruption::is_stopped() {
            break progress;
        }
    };
    bar.finish_and_clear();
    Ok(progress)
}
