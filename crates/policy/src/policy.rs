//! A compiled policy: the class of a key and the roles of an actor.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::index::PrefixIndex;
use crate::name::put_name;
use crate::pattern::Pattern;

/// Controller, processor, purpose and basis in a policy; empty means "not stated".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Roles {
    /// The controller of the data.
    pub controller: String,
    /// The processor that acts for the controller.
    pub processor: String,
    /// The purpose.
    pub purpose: String,
    /// The legal basis.
    pub basis: String,
}

/// The classification of a key by a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class<'a> {
    /// `true` if operations on the key are recorded.
    pub personal: bool,
    /// The deciding rule: `key:` and its pattern, or `defaults`.
    pub rule: &'a str,
    /// The controller of the data, by the pattern or the defaults.
    pub controller: &'a str,
    /// The processor, by the pattern or the defaults.
    pub processor: &'a str,
    /// The purpose, by the pattern or the defaults.
    pub purpose: &'a str,
    /// The legal basis, by the pattern or the defaults.
    pub basis: &'a str,
}

/// An actor in a policy. Its roles take precedence over those of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The authenticated principal or the client's name.
    pub name: String,
    /// `true` if a client's name also decides for users that the server has logged in.
    pub for_users: bool,
    /// The roles of the actor.
    pub roles: Roles,
}

/// A compiled policy.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<KeyRule>,
    index: PrefixIndex,
    principals: HashMap<String, Actor>,
    clients: HashMap<String, Actor>,
    defaults: Roles,
    default_personal: bool,
    digest: [u8; 32],
}

/// The work of a comparison with the shortest key, in bytes.
const KEY_WORK: usize = 32;

/// The name of the rule for keys that no pattern matches.
const DEFAULTS: &str = "defaults";

#[derive(Debug, Clone)]
pub(crate) struct KeyRule {
    /// `key:` and the pattern, as recorded in entries.
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
    pub(crate) personal: bool,
    pub(crate) roles: Roles,
}

thread_local! {
    /// Buffer for ranks of candidate rules, which saves an allocation per key.
    static CANDIDATES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Policy {
    /// The patterns of the built-in policy, which applies if there is no policy file.
    pub const BUILTIN_PATTERNS: [&'static str; 2] = ["user:{subject}", "user:{subject}:*"];

    /// Returns whether a pattern says whom a key is about. Without one no entry of an operation has a
    /// subject.
    pub fn names_people(&self) -> bool {
        self.rules.iter().any(|rule| rule.pattern.names_people())
    }

    /// Returns the built-in policy, which applies if there is no policy file. Every key is
    /// recorded. In keys that begin with `user:` the subject is the second segment.
    pub fn builtin() -> Self {
        let patterns = Self::BUILTIN_PATTERNS.iter();
        let rules = patterns.filter_map(|text| {
            Some(KeyRule::new(
                Pattern::parse(text).ok()?,
                true,
                Roles::default(),
            ))
        });
        let text = Self::BUILTIN_PATTERNS.join("\n");
        Self::new(
            rules.collect(),
            Vec::new(),
            Vec::new(),
            Roles::default(),
            true,
        )
        .with_digest_of(&text)
    }

    /// Returns the SHA-256 of the policy file; for the built-in policy, of its patterns joined by a
    /// line feed.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    pub(crate) fn with_digest_of(mut self, text: &str) -> Self {
        self.digest = Sha256::digest(text.as_bytes()).into();
        self
    }

    /// Compiles rules. The most specific pattern is tried first, and among equals the earlier one.
    pub(crate) fn new(
        mut rules: Vec<KeyRule>,
        principals: Vec<Actor>,
        clients: Vec<Actor>,
        defaults: Roles,
        default_personal: bool,
    ) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.pattern.specificity()));
        for rule in &mut rules {
            rule.roles.fill_from(&defaults);
        }
        let index = PrefixIndex::new(rules.iter().map(|rule| &rule.pattern));
        let named = |actors: Vec<Actor>| {
            actors
                .into_iter()
                .map(|actor| (as_in_entries(&actor.name), actor))
                .collect()
        };
        Self {
            rules,
            index,
            principals: named(principals),
            clients: named(clients),
            defaults,
            default_personal,
            digest: [0; 32],
        }
    }

    /// Returns the most work of classifying a key of this length, in bytes compared with patterns.
    pub const fn work_of(&self, bytes: usize) -> usize {
        bytes
            .saturating_add(KEY_WORK)
            .saturating_mul(1 + self.index.candidates_max())
    }

    /// Classifies `key`; puts the ranges of its subjects into `subjects`.
    pub fn classify(&self, key: &[u8], subjects: &mut Vec<Range<usize>>) -> Class<'_> {
        let found = CANDIDATES.with_borrow_mut(|candidates| {
            self.index.candidates(key, candidates);
            let mut rules = candidates.iter().filter_map(|rank| self.rules.get(*rank));
            rules.find(|rule| rule.pattern.matches(key, subjects))
        });
        if let Some(rule) = found {
            rule.roles.class(rule.personal, &rule.name)
        } else {
            subjects.clear();
            self.defaults.class(self.default_personal, DEFAULTS)
        }
    }

    /// Returns the actor for an authenticated principal, else for a client name, both as entries
    /// have them ([`put_name`]). If there is a
    /// principal, the client name decides only if the policy has `for_users` for it.
    pub fn actor(&self, principal: Option<&str>, client: Option<&str>) -> Option<&Actor> {
        let by_principal = principal.and_then(|name| self.principals.get(name));
        by_principal.or_else(|| {
            let by_client = client.and_then(|name| self.clients.get(name));
            by_client.filter(|actor| principal.is_none() || actor.for_users)
        })
    }
}

impl KeyRule {
    pub(crate) fn new(pattern: Pattern, personal: bool, roles: Roles) -> Self {
        Self {
            name: format!("key:{}", pattern.as_str()),
            pattern,
            personal,
            roles,
        }
    }
}

impl Roles {
    fn class<'a>(&'a self, personal: bool, rule: &'a str) -> Class<'a> {
        Class {
            personal,
            rule,
            controller: &self.controller,
            processor: &self.processor,
            purpose: &self.purpose,
            basis: &self.basis,
        }
    }

    fn fill_from(&mut self, defaults: &Self) {
        let fields = [
            (&mut self.controller, &defaults.controller),
            (&mut self.processor, &defaults.processor),
            (&mut self.purpose, &defaults.purpose),
            (&mut self.basis, &defaults.basis),
        ];
        for (field, default) in fields {
            if field.is_empty() {
                field.clone_from(default);
            }
        }
    }
}
/// Returns a name of a policy as entries have it.
fn as_in_entries(name: &str) -> String {
    let mut spelled = String::new();
    put_name(&mut spelled, name.as_bytes());
    spelled
}
