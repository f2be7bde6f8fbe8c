//! Credentials as people keep them: a line of text each, which says itself what it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::credential::RecoveryToken;
use crate::crypto::{KEY_BYTES, SecretKey};
use crate::error::Error;
use crate::principal::Registration;
use crate::share::TokenShare;

const KEY_LABEL: &str = "probity-disguise-key-v1 ";
const TOKEN_LABEL: &str = "probity-disguise-token-v1 ";
const SHARE_LABEL: &str = "probity-disguise-share-v1 ";
/// Enough for the longest line, so that no copy of a secret is left behind by growing.
const LINE_BYTES: usize = 256;

/// What a line holds; it has no `Debug`.
#[non_exhaustive]
pub enum CredentialLine {
    /// A private key.
    Key(SecretKey),
    /// A recovery token.
    Token(RecoveryToken),
    /// One share of a recovery token.
    Share(TokenShare),
    /// A password: whatever carries no label.
    Password(Zeroizing<String>),
}

impl CredentialLine {
    /// Reads a line.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] when what follows the label is damaged.
    pub fn parse(line: &str) -> Result<Self, Error> {
        if let Some(key) = line.strip_prefix(KEY_LABEL) {
            let mut bytes = Zeroizing::new([0; KEY_BYTES]);
            return match URL_SAFE_NO_PAD.decode_slice(key, bytes.as_mut_slice()) {
                Ok(KEY_BYTES) => Ok(Self::Key(SecretKey::from_bytes(*bytes))),
                _ => Err(Error::WrongCredential),
            };
        }
        if let Some(token) = line.strip_prefix(TOKEN_LABEL) {
            return RecoveryToken::parse(token).map(Self::Token);
        }
        if let Some(share) = line.strip_prefix(SHARE_LABEL) {
            return TokenShare::parse(share).map(Self::Share);
        }
        Ok(Self::Password(Zeroizing::new(line.to_owned())))
    }
}

impl Registration {
    /// The line that its owner keeps: the recovery token, where the key is protected by one, else the private key.
    pub fn line(&self) -> Zeroizing<String> {
        if let Some(token) = &self.token {
            return labelled(TOKEN_LABEL, &Zeroizing::new(token.expose()));
        }
        let mut line = Zeroizing::new(String::with_capacity(LINE_BYTES));
        line.push_str(KEY_LABEL);
        URL_SAFE_NO_PAD.encode_string(self.key.expose(), &mut line);
        line
    }
}

impl TokenShare {
    /// The line that its holder keeps.
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
        for label in [KEY_LABEL, TOKEN_LABEL, SHARE_LABEL] {
            assert!(CredentialLine::parse(&format!("{label}?")).is_err());
        }
    }
}
