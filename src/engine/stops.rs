//! Stop strings: text that ends an answer and does not belong to it.

/// Scans a text that comes in pieces for the first of several stop strings, wherever the pieces break.
///
/// Text that may be the beginning of a stop string is held back until it is clear that it is not; so the output never
/// has any part of the stop string that ended it.
#[derive(Debug, Clone)]
pub struct StopScanner {
    stops: Vec<String>,
    /// Text that is held back: it ends with a beginning of some stop string, or is empty.
    held: String,
    /// Index of the stop string that was found.
    found: Option<usize>,
}

impl StopScanner {
    /// A scanner for stop strings, none of which is empty.
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.to_vec(), held: String::new(), found: None }
    }

    /// Takes the next piece and returns the text that now certainly belongs to the answer. After a match that is none.
    pub fn push(&mut self, text: &str) -> String {
        if self.found.is_some() {
            return String::new();
        }
        if self.stops.is_empty() {
            return text.to_owned();
        }
        self.held.push_str(text);
        // The match that begins first wins; of several there, the stop string listed first.
        let first =
            self.stops.iter().enumerate().filter_map(|(i, stop)| self.held.find(stop.as_str()).map(|at| (at, i))).min();
        if let Some((at, index)) = first {
            // A longer stop string that begins earlier may still be completed, and would win.
            if self.partial_before(at).is_none() {
                self.found = Some(index);
                self.held.truncate(at);
                return std::mem::take(&mut self.held);
            }
        }
        let keep_from = self.partial_before(self.held.len()).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep_from);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text that was held back, when the answer ends for another reason.
    pub fn finish(&mut self) -> String {
        // A match that waited for a longer stop string counts now.
        let first =
            self.stops.iter().enumerate().filter_map(|(i, stop)| self.held.find(stop.as_str()).map(|at| (at, i))).min();
        if let (None, Some((at, index))) = (self.found, first) {
            self.found = Some(index);
            self.held.truncate(at);
        }
        std::mem::take(&mut self.held)
    }

    /// The stop string that ended the answer.
    pub fn stopped_by(&self) -> Option<&str> {
        self.found.map(|index| self.stops[index].as_str())
    }

    /// The first position before `limit` from which the held text is a proper prefix of a stop string.
    fn partial_before(&self, limit: usize) -> Option<usize> {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest.saturating_sub(1));
        (from..limit.min(self.held.len())).filter(|&at| self.held.is_char_boundary(at)).find(|&at| {
            self.stops.iter().any(|stop| stop.len() > self.held.len() - at && stop.starts_with(&self.held[at..]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner(stops: &[&str]) -> StopScanner {
        StopScanner::new(&stops.iter().map(|s| s.to_string()).collect::<Vec<_>>())
    }

    /// The output for `text` cut into pieces of `size` characters, and the stop string that ended it.
    fn run(stops: &[&str], text: &str, size: usize) -> (String, Option<String>) {
        let mut scanner = scanner(stops);
        let mut out = String::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            out.push_str(&scanner.push(&piece.iter().collect::<String>()));
        }
        out.push_str(&scanner.finish());
        (out, scanner.stopped_by().map(str::to_owned))
    }

    #[test]
    fn finds_a_stop_wherever_the_pieces_break() {
        for size in 1..12 {
            assert_eq!(run(&["\nUser:"], "Hello\nUser: more", size), ("Hello".into(), Some("\nUser:".into())));
            assert_eq!(run(&["aab"], "aaab", size), ("a".into(), Some("aab".into())));
            assert_eq!(run(&["é!", "zz"], "cafés é!x", size), ("cafés ".into(), Some("é!".into())));
            assert_eq!(run(&["END"], "EN EN E", size), ("EN EN E".into(), None));
            assert_eq!(run(&[], "anything", size), ("anything".into(), None));
        }
    }

    #[test]
    fn the_stop_that_begins_first_wins() {
        for size in 1..8 {
            assert_eq!(run(&["bc", "abcd"], "xabcdy", size), ("x".into(), Some("abcd".into())));
            assert_eq!(run(&["bc", "abcd"], "xabce", size), ("xa".into(), Some("bc".into())));
            assert_eq!(run(&["bc", "abcd"], "xabc", size), ("xa".into(), Some("bc".into())));
        }
    }

    #[test]
    fn holds_back_no_more_than_it_must() {
        let mut s = scanner(&["<end>"]);
        assert_eq!(s.push("a < b"), "a < b");
        assert_eq!(s.push(" <en"), " ");
        assert_eq!(s.push("joy"), "<enjoy");
        assert_eq!(s.push("<end>tail"), "");
        assert_eq!(s.stopped_by(), Some("<end>"));
        assert_eq!(s.push("more"), "");
        assert_eq!(s.finish(), "");
    }
}
