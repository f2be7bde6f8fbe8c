//! Credentials in the form that people keep: a line of text each, with a label for its kind.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::crypto::suite::Suite;
use crate::crypto::{KEY_BYTES, SecretKey};
use crate::error::Error;
use crate::records::credential::RecoveryToken;
use crate::records::principal::Registration;
use crate::records::share::TokenShare;

const KEY_LABEL: &str = "probity-disguise-key-v1 ";
/// A key with its suite before it; the label before is of X25519 alone.
const SUITE_KEY_LABEL: &str = "probity-disguise-key-v2 ";
/// The longest name of a suite that an error quotes; longer text could be a secret in the wrong
/// place.
const SUITE_NAME_BYTES_MAX: usize = 16;
const TOKEN_LABEL: &str = "probity-disguise-token-v1 ";
const SHARE_LABEL: &str = "probity-disguise-share-v1 ";
/// Enough for the longest line, so that a growing buffer leaves no copy of a secret behind.
const LINE_BYTES: usize = 256;

/// The contents of a line; it has no `Debug`.
#[non_exhaustive]
pub enum CredentialLine {
    /// A private key.
    Key(SecretKey),
    /// A recovery token.
    Token(RecoveryToken),
    /// One share of a recovery token.
    Share(TokenShare),
    /// A password: any text without a label.
    Password(Zeroizing<String>),
}

impl CredentialLine {
    /// Reads a line.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] when the text after the label is damaged, [`Error::Suite`] when
    /// it is a key of an unknown suite.
    pub fn parse(line: &str) -> Result<Self, Error> {
        if let Some(key) = line.strip_prefix(KEY_LABEL) {
            return Self::key(Suite::X25519, key);
        }
        if let Some(rest) = line.strip_prefix(SUITE_KEY_LABEL) {
            let (suite, key) = rest.split_once(' ').ok_or(Error::WrongCredential)?;
            if suite.len() > SUITE_NAME_BYTES_MAX {
                return Err(Error::WrongCredential);
            }
            return Self::key(suite.parse()?, key);
        }
        if let Some(token) = line.strip_prefix(TOKEN_LABEL) {
            return RecoveryToken::parse(token).map(Self::Token);
        }
        if let Some(share) = line.strip_prefix(SHARE_LABEL) {
            return TokenShare::parse(share).map(Self::Share);
        }
        Ok(Self::Password(Zeroizing::new(line.to_owned())))
    }

    fn key(suite: Suite, text: &str) -> Result<Self, Error> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        match URL_SAFE_NO_PAD.decode_slice(text, bytes.as_mut_slice()) {
            Ok(KEY_BYTES) => Ok(Self::Key(SecretKey::of(suite, *bytes))),
            _ => Err(Error::WrongCredential),
        }
    }
}

impl Registration {
    /// Returns the line that its owner keeps: the recovery token, if one protects the key, else the
    /// private key.
    pub fn line(&self) -> Zeroizing<String> {
        if let Some(token) = &self.token {
            return labelled(TOKEN_LABEL, &Zeroizing::new(token.expose()));
        }
        let mut line = Zeroizing::new(String::with_capacity(LINE_BYTES));
        match self.key.suite() {
            Suite::X25519 => line.push_str(KEY_LABEL),
            suite => {
                line.push_str(SUITE_KEY_LABEL);
                line.push_str(suite.as_str());
                line.push(' ');
            }
        }
        URL_SAFE_NO_PAD.encode_string(self.key.expose(), &mut line);
        line
    }
}

impl TokenShare {
    /// Returns the line that its holder keeps.
    pub fn line(&self) -> Zeroizing<String> {
        labelled(SHARE_LABEL, &Zeroizing::new(self.expose()))
    }
}

fn labelled(label: &str, secret: &str) -> Zeroizing<String> {
    let mut line = Zeroizing::new(String::with_capacity(LINE_BYTES));
    line.push_str(label);
    line.push_str(secret);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_back_as_what_it_was() {
        let key = SecretKey::generate().unwrap();
        let bytes = *key.expose();
        let line = Registration { key, token: None }.line();
        let read = CredentialLine::parse(&line);
        assert!(matches!(read, Ok(CredentialLine::Key(it)) if *it.expose() == bytes));
        let key = SecretKey::generate_of(Suite::XWing).unwrap();
        let bytes = *key.expose();
        let line = Registration { key, token: None }.line();
        let read = CredentialLine::parse(&line);
        assert!(
            matches!(read, Ok(CredentialLine::Key(it)) if *it.expose() == bytes && it.suite() == Suite::XWing)
        );
        let unknown = CredentialLine::parse(&line.replace("x-wing", "kyber"));
        assert!(matches!(unknown, Err(Error::Suite { name }) if name == "kyber"));
        let token = RecoveryToken::generate().unwrap();
        let [share, ..] = token.split().unwrap();
        let read = CredentialLine::parse(&share.line());
        assert!(matches!(read, Ok(CredentialLine::Share(it)) if it.expose() == share.expose()));
        let (kept, key) = (token.expose(), SecretKey::generate().unwrap());
        let token = Some(token);
        let line = Registration { key, token }.line();
        let read = CredentialLine::parse(&line);
        assert!(matches!(read, Ok(CredentialLine::Token(it)) if it.expose() == kept));
        let read = CredentialLine::parse("correct horse");
        assert!(matches!(read, Ok(CredentialLine::Password(it)) if *it == "correct horse"));
    }

    #[test]
    fn a_damaged_line_is_no_password() {
        for label in [KEY_LABEL, SUITE_KEY_LABEL, TOKEN_LABEL, SHARE_LABEL] {
            assert!(CredentialLine::parse(&format!("{label}?")).is_err());
        }
    }
}
