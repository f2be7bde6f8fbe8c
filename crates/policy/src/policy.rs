//! A policy in force: which class a key falls into, and what is known of an actor.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::index::PrefixIndex;
use crate::pattern::Pattern;

/// Who and what for, where a policy says so; empty means "not said".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Roles {
    /// Who decides over the data.
    pub controller: String,
    /// Who processes it for the controller.
    pub processor: String,
    /// What for.
    pub purpose: String,
    /// The legal basis.
    pub basis: String,
}

/// What a policy says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class<'a> {
    /// Whether operations on it are recorded.
    pub personal: bool,
    /// The rule that says so: `key:` and its pattern, or `defaults`.
    pub rule: &'a str,
    /// Who decides over the data, by the pattern or the defaults.
    pub controller: &'a str,
    /// Who processes it, by the pattern or the defaults.
    pub processor: &'a str,
    /// What for, by the pattern or the defaults.
    pub purpose: &'a str,
    /// The legal basis, by the pattern or the defaults.
    pub basis: &'a str,
}

/// What a policy says of an actor; its roles go before those of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The authenticated principal or the client's name.
    pub name: String,
    /// Whether a client's name decides for users whom the server has logged in, too.
    pub for_users: bool,
    /// Its roles.
    pub roles: Roles,
}

/// A policy, compiled.
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

/// The name of the rule for keys that no pattern matches.
const DEFAULTS: &str = "defaults";

#[derive(Debug, Clone)]
pub(crate) struct KeyRule {
    /// `key:` and the pattern, as entries name it.
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
    pub(crate) personal: bool,
    pub(crate) roles: Roles,
}

thread_local! {
    /// Ranks of candidate rules, kept to spare an allocation for each key.
    static CANDIDATES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Policy {
    /// The patterns in force when there is no policy file.
    pub const BUILTIN_PATTERNS: [&'static str; 2] = ["user:{subject}", "user:{subject}:*"];

    /// The policy in force when there is no policy file: every key is recorded, and the subject is
    /// what stands second in keys that begin with `user:`.
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

    /// SHA-256 of the policy file; of the built-in policy, of its patterns with a line feed between them.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    pub(crate) fn with_digest_of(mut self, text: &str) -> Self {
        self.digest = Sha256::digest(text.as_bytes()).into();
        self
    }

    /// Compiles rules; the most specific is asked first, among equals the one written first.
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
                .map(|actor| (actor.name.clone(), actor))
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

    /// What the policy says of `key`; puts the ranges of its subjects into `subjects`.
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

    /// What the policy says of an actor: by its authenticated principal, else by its client name. Where there is a principal,
    /// the name that a client gives itself decides only if the policy says so for that name.
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
