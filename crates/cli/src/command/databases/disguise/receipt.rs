//! Receipts of forgetting: `receipt-key`, `check-receipt`, and the file written by `forget`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use probity_disguise::{Receipt, ReceiptError, Value};
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::{SEED_BYTES, Signer as _, SigningKey};
use serde::Serialize;
use zeroize::Zeroizing;

use super::credential::{CredentialFile, first_line};
use crate::args::{CheckReceipt, ReceiptKey};
use crate::entry_json::format_time;
use crate::envelope::Failed;
use crate::failure::{Failure, Status};
use crate::key_file::{RECEIPT_KEY_LABEL, random_secret, read_verifier};
use crate::one_line::converted;
use crate::output::Output;
use crate::output_file::OutputFile;

/// Room that is taken for a receipt before anything is forgotten.
const RECEIPT_BYTES: usize = 4096;
const KEY_LABEL: &str = RECEIPT_KEY_LABEL;

/// The extent of what was forgotten, for a person to read.
pub(super) const OF_RECORDS: &str =
    "  records of what was hidden: rows that the application shows are not touched";

#[derive(Serialize)]
struct CheckedForm {
    forgotten: String,
    time: String,
    bags: u64,
}

/// Creates the key file, or reads an existing one, and prints the public key.
pub(super) fn key(args: &ReceiptKey) -> Result<Status, Failure> {
    if !args.file.exists() {
        SigningKey::from_seed(&args.name, &[0; SEED_BYTES]).map_err(|error| {
            Failure::new(format!("{:?} cannot be the name of a signer", args.name))
                .because(error)
                .remedy(
                    "give --name a name without spaces and plus signs, like example.com/receipts",
                )
        })?;
        let mut file = CredentialFile::create(&args.file)?;
        let seed = random_secret()
            .map_err(|error| Failure::new("the system gives no random bytes").because(error))?;
        let mut line = Zeroizing::new(format!("{KEY_LABEL}{} ", args.name));
        line.push_str(&Zeroizing::new(URL_SAFE_NO_PAD.encode(seed.as_slice())));
        if let Err(failure) = signer_of(&args.file, &line) {
            file.give_up();
            return Err(failure);
        }
        file.finish(&line)?;
    }
    let signer = read_signer(&args.file)?;
    if signer.verifier_key().name() != args.name {
        return Err(Failure::new(format!(
            "{} is the key of {}",
            args.file.display(),
            signer.verifier_key().name()
        ))
        .remedy("name that signer, or another file"));
    }
    let mut output = Output::new();
    output.line(&signer.verifier_key().encode())?;
    output.flush()?;
    Ok(Status::Done)
}

/// Reads the key from a file made by `receipt-key`.
pub(in crate::command::databases) fn read_signer(path: &Path) -> Result<SigningKey, Failure> {
    signer_of(path, &first_line(path, "the key that signs receipts")?)
}

fn signer_of(path: &Path, line: &str) -> Result<SigningKey, Failure> {
    // The reason could quote the secret.
    let damaged = || {
        Failure::new(format!("{} is no key that signs receipts", path.display()))
            .remedy("make one with: probity disguise receipt-key FILE --name NAME")
    };
    let rest = line.strip_prefix(KEY_LABEL).ok_or_else(damaged)?;
    let (name, seed) = rest.rsplit_once(' ').ok_or_else(damaged)?;
    let mut bytes = Zeroizing::new([0; SEED_BYTES]);
    match URL_SAFE_NO_PAD.decode_slice(seed, bytes.as_mut_slice()) {
        Ok(SEED_BYTES) => {}
        _ => return Err(damaged()),
    }
    SigningKey::from_seed(name, &bytes).map_err(|error| damaged().because(error))
}

/// A receipt to be written; its key and file exist before anything is forgotten.
pub(super) struct Outgoing<'a> {
    signer: SigningKey,
    file: OutputFile,
    path: &'a Path,
}

impl<'a> Outgoing<'a> {
    pub(super) fn open(
        path: Option<&'a Path>,
        key: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let (Some(path), Some(key)) = (path, key) else {
            return Ok(None);
        };
        let signer = read_signer(key)?;
        if path.exists() {
            return Err(Failure::new(format!("{} is there already", path.display()))
                .remedy("name a new file for the receipt"));
        }
        let failed = |error| Failure::file("create", path, error);
        let mut file = OutputFile::create(path).map_err(failed)?;
        file.hold_room(RECEIPT_BYTES).map_err(failed)?;
        Ok(Some(Self { signer, file, path }))
    }

    pub(super) fn write(mut self, receipt: &Receipt) -> Result<(), Failure> {
        let path = self.path;
        let note = receipt
            .signed(&self.signer)
            .map_err(|error| Failure::new("the receipt could not be signed").because(error))?;
        let written = self.file.write_all(note.as_bytes());
        written.and_then(|()| self.file.finish()).map_err(|error| {
            // No second receipt can be had: the credential opens nothing any more.
            Failure::file("write the receipt", path, error).remedy(format!(
                "the receipt is nowhere else; keep these lines as a file:\n{note}"
            ))
        })
    }
}

#[derive(Serialize)]
struct Unproven {
    proves: bool,
    fault: String,
    #[serde(flatten)]
    failed: Failed,
}

pub(super) fn check(args: &CheckReceipt) -> Result<Status, Failure> {
    check_one(args).inspect_err(|failure| {
        if args.json && failure.status() == Status::Broken {
            let mut output = Output::new();
            let fault = failure.clause();
            let document = Unproven {
                proves: false,
                fault,
                failed: Failed::new(failure),
            };
            // The exit status says it too if nobody reads the document.
            drop(output.json(&document).and_then(|()| output.flush()));
        }
    })
}

fn check_one(args: &CheckReceipt) -> Result<Status, Failure> {
    let key = read_verifier(&args.key, "--key FILE")?;
    let failed = |error| Failure::file("read", &args.file, error);
    let mut bytes = Vec::new();
    let file = fs::File::open(&args.file).map_err(failed)?;
    let most = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let proves_nothing = || Failure::broken(format!("{} proves nothing", args.file.display()));
    let receipt =
        Receipt::verified(&bytes, &[key]).map_err(|error| match (converted(&bytes), error) {
            (Some(reason), _) => proves_nothing().because(reason),
            (None, ReceiptError::Note(cause)) => proves_nothing().because(cause),
            (None, other) => proves_nothing().because(other),
        })?;
    let tenant = args.tenant.as_deref().map(Value::from);
    let about = args.user.as_deref().map(Value::meant);
    let is_about = |user: &Value| receipt.is_about(tenant.as_ref(), user);
    if about.is_some_and(|users| !users.iter().any(is_about)) {
        return Err(proves_nothing().because("it is about somebody else"));
    }
    let form = CheckedForm {
        forgotten: receipt
            .disguise
            .map_or_else(|| "everything".to_owned(), |id| id.to_string()),
        time: format_time(receipt.time),
        bags: receipt.bags,
    };
    let mut output = Output::new();
    if args.json {
        output.json(&form)?;
    } else {
        output.line(&format!("forgotten for good: {}", form.forgotten))?;
        output.line(&format!("  at {}", form.time))?;
        output.line(&format!(
            "  encrypted sets of records destroyed: {}",
            form.bags
        ))?;
        output.line(OF_RECORDS)?;
    }
    output.flush()?;
    Ok(Status::Done)
}
