//! Two replies side by side.

use probity_proxy::resp::Frame;

use super::commands::How;

/// A reply as it came and as it is meant.
#[derive(Debug, Clone)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub frame: Frame,
}

/// Returns whether two replies agree.
pub fn agree(how: How, left: &Answer, right: &Answer) -> bool {
    if left.bytes == right.bytes {
        return true;
    }
    // An error is an error however the reply would have been compared.
    if matches!(left.frame, Frame::Error(_)) || matches!(right.frame, Frame::Error(_)) {
        return false;
    }
    frames_agree(how, &left.frame, &right.frame)
}

/// Returns whether two frames agree, like the elements of EXEC.
pub fn frames_agree(how: How, left: &Frame, right: &Frame) -> bool {
    if left == right || both_nan(left, right) {
        return true;
    }
    match how {
        How::Exactly => false,
        How::Near(most) => match (left, right) {
            // A reply without a time is compared exactly.
            (Frame::Integer(left), Frame::Integer(right)) => {
                *left > 0 && *right > 0 && (left - right).abs() <= most
            }
            _ => false,
        },
        How::Unordered => sorted(left, 1) == sorted(right, 1),
        How::Pairs => sorted(left, 2) == sorted(right, 2),
        How::Loosely => std::mem::discriminant(left) == std::mem::discriminant(right),
        How::Shape => shape(left) == shape(right),
        How::Scan => scans_agree(left, right, 1),
        How::ScanPairs => scans_agree(left, right, 2),
    }
}

fn both_nan(left: &Frame, right: &Frame) -> bool {
    matches!((left, right), (Frame::Double(left), Frame::Double(right)) if left.is_nan() && right.is_nan())
}

/// The elements in an order of their own, in groups of `size`.
fn sorted(frame: &Frame, size: usize) -> Option<Vec<String>> {
    let mut groups: Vec<String> = match frame {
        Frame::Map(pairs) => pairs.iter().map(|pair| format!("{pair:?}")).collect(),
        Frame::Array(elements) => {
            let groups = elements.chunks(size);
            groups.map(|group| format!("{group:?}")).collect()
        }
        Frame::Set(elements) => {
            let groups = elements.iter();
            groups.map(|element| format!("set {element:?}")).collect()
        }
        _ => return None,
    };
    groups.sort();
    groups.push(format!("{:?}", std::mem::discriminant(frame)));
    Some(groups)
}

fn shape(frame: &Frame) -> String {
    let kind = std::mem::discriminant(frame);
    match frame {
        Frame::Array(elements) | Frame::Set(elements) => {
            let inner: Vec<String> = elements.iter().map(shape).collect();
            format!("{kind:?} {inner:?}")
        }
        Frame::Map(pairs) => format!("{kind:?} {}", pairs.len()),
        _ => format!("{kind:?}"),
    }
}

fn scans_agree(left: &Frame, right: &Frame, size: usize) -> bool {
    match (left.elements(), right.elements()) {
        (Some([left_cursor, left]), Some([right_cursor, right])) => {
            left_cursor == right_cursor && sorted(left, size) == sorted(right, size)
        }
        _ => false,
    }
}
