//! Holders: the people to whom credentials are bound.

use super::accounts;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::credential::{Credential, KeyCost};
use crate::records::holder::{self, Claim, Clue, Holder};
use crate::records::{registry, settings};
use crate::transaction::transactions::Transactions;

/// Returns the salt, and the person `user`, to whom the credential is bound; refused when somebody
/// else has the id by now.
pub(super) fn present<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
    credential: &Credential<'_>,
    cost: KeyCost,
) -> Result<(Vec<u8>, Holder), Error> {
    let (salt, holder) = former(open, user, credential, cost)?;
    Ok((salt, holder.undisplaced()?))
}

/// Returns the holder of a credential that is to be changed. Where another key is registered, a
/// record must have taken the account away: else somebody put the key in the place of theirs.
pub(super) fn changing<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
    current: &Credential<'_>,
    cost: KeyCost,
) -> Result<(Vec<u8>, Holder), Error> {
    let (salt, holder) = former(open, user, current, cost)?;
    if !holder.is_registered() && holder.taken_by(&mut open.database)?.is_some() {
        return Ok((salt, holder));
    }
    Ok((salt, holder.undisplaced()?))
}

/// Returns the holder even if somebody else has the id of the person by now. For operations
/// that concern only the person's own records.
pub(super) fn former<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
    credential: &Credential<'_>,
    cost: KeyCost,
) -> Result<(Vec<u8>, Holder), Error> {
    let database = &mut open.database;
    let salt = settings::salt(database)?;
    let name = user.principal();
    let mut registered = registry::principals(database, std::slice::from_ref(&name))?;
    let claim = Claim {
        user,
        credential,
        cost,
        registered: registered.remove(&name).map(|(public, _)| public),
    };
    let holder = Holder::find(database, &salt, &claim)?;
    Ok((salt, holder))
}

/// Returns the owner of a private key.
pub(super) fn owner<D: Database>(
    open: &mut Transactions<D>,
    credential: &Credential<'_>,
) -> Result<Value, Error> {
    let Credential::Key(key) = credential else {
        return Err(Error::Value {
            what: "a password or a token needs its user".to_owned(),
        });
    };
    let salt = settings::salt(&mut open.database)?;
    match holder::clue(&mut open.database, &salt, key)? {
        Some(Clue::Id(id)) => Ok(id),
        Some(Clue::Name(name)) => {
            let mut ids = accounts::ids(open)?.into_iter();
            let tenancy = &open.database.tenancy;
            let meant = |id: &Value| registry::named(tenancy, &id.principal()).principal() == name;
            ids.find(meant).ok_or(Error::WrongCredential)
        }
        None => Err(Error::WrongCredential),
    }
}

/// Returns those of `placeholders` that the person may act as.
pub(super) fn acts_as<D: Database>(
    open: &mut Transactions<D>,
    holder: &Holder,
    placeholders: Vec<Value>,
) -> Result<Vec<Value>, Error> {
    let pseudo = open.application.pseudo();
    let users = (pseudo.table.as_str(), pseudo.id.as_str());
    holder.acts_as(&mut open.database, placeholders, users)
}
