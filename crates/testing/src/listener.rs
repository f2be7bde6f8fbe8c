//! The process that listens on a port: two servers that are started at once may draw the same one.

use std::fs;

/// Returns whether the process with number `process` listens on `port`, of any address of version 4.
pub(crate) fn listens(process: u32, port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let of_port = sockets.lines().filter_map(|line| listening(line, port));
    let names: Vec<String> = of_port.map(|inode| format!("socket:[{inode}]")).collect();
    // The process may be gone, and its files with it.
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    let targets = files.into_iter().flatten().flatten();
    let mut targets = targets.filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| names.iter().any(|name| target.as_os_str() == name.as_str()))
}

/// The inode in a line of the kernel's table, if it is of a socket that listens on `port`.
fn listening(line: &str, port: u16) -> Option<&str> {
    let mut words = line.split_whitespace().skip(1);
    let (_, found) = words.next()?.rsplit_once(':')?;
    let state = words.nth(1)?;
    let is_one = u16::from_str_radix(found, 16).ok()? == port && state == "0A";
    words.nth(5).filter(|_| is_one)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_the_process_that_listens_counts() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        assert!(!listens(1, port));
        drop(listener);
        assert!(!listens(std::process::id(), port));
    }
}
