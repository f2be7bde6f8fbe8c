//! Commands that are planned and not there yet, with what does their work meanwhile.

/// Returns what to use instead of the command `word`, if that is a planned one.
pub fn instead_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "query" => {
            "there is no 'query' yet; read entries with: probity export DIR --subject S --format jsonl"
        }
        "access" => {
            "there is no 'subject access' yet; give a person their copy with: probity subject export DIR S --pocket FILE"
        }
        "erase" => {
            "there is no 'subject erase' yet; a program erases a subject with the library's Log::erase"
        }
        "rotate" => {
            "there is no 'keys rotate' yet; each opening for writing and each hour makes a new signing key"
        }
        "prune" | "grant" | "acknowledge" | "deadletter" => "there is no such command yet",
        _ => return None,
    })
}
