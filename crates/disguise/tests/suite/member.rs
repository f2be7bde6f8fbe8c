//! A person of a database that a test makes and describes by itself.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    Applied, ApplyRequest, Credential, Database, Engine, Error, KeyCost, Protection, References,
    RevealRequest, Revealed, Rows, SecretKey, Spec, SpecFile, Value,
};

use super::forum::time;

/// The engine over that database, and whoever has the id 1 there.
pub(crate) struct Member {
    pub(crate) engine: Engine<Box<dyn Database>>,
    spec: Spec,
    key: SecretKey,
}

impl Member {
    /// Registers the person.
    pub(crate) fn of(database: Box<dyn Database>, description: &str) -> Self {
        let file = SpecFile::parse(description).unwrap();
        let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
        engine.set_key_cost(KeyCost::DANGER_LEAST);
        engine.install().unwrap();
        let registered = engine.register(&Value::Int(1), Protection::KeyAlone, time());
        Self {
            engine,
            spec: file.spec,
            key: registered.unwrap().key,
        }
    }

    pub(crate) fn rows<const N: usize>(&mut self, tables: [&str; N]) -> [BTreeSet<String>; N] {
        tables.map(|table| {
            let rows = self.engine.rows(table).unwrap();
            rows.iter().map(|row| format!("{row:?}")).collect()
        })
    }

    pub(crate) fn leave(&mut self) -> Applied {
        self.try_to_leave().unwrap()
    }

    pub(crate) fn try_to_leave(&mut self) -> Result<Applied, Error> {
        let request = ApplyRequest {
            spec: &self.spec,
            user: Some(Value::Int(1)),
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.apply(&request)
    }

    pub(crate) fn return_from(&mut self, applied: &Applied) -> Revealed {
        let request = RevealRequest {
            user: Value::Int(1),
            credential: Credential::Key(&self.key),
            id: applied.id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        };
        self.engine.reveal(&request).unwrap()
    }
}
