//! What a model reads, position by position: tokens, and rows that stand in place of tokens' embeddings.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Rows that are computed elsewhere, a picture's for one, and take the place of embeddings. Equal hashes are equal
/// rows, whether or not they are there.
pub struct Embedded {
    hash: String,
    token: u32,
    rows: u32,
    /// Columns and rows where positions have three axes; `None`: each row takes the next position, as a token does.
    grid: Option<[u32; 2]>,
    values: OnceCell<Rc<[f32]>>,
}

impl Embedded {
    /// `rows` rows, of which the values come later ([`Embedded::fill`]). `hash` tells what they are made of from all
    /// else, and how they are made; `token` is the id that stands in their places wherever ids alone matter: penalties,
    /// drafts. Where models have numbers by token, theirs are the padding token's.
    ///
    /// # Errors
    /// `BAD_OPTION` where there are no rows.
    pub fn new(hash: String, token: u32, rows: u32) -> Result<Rc<Self>> {
        Self::made(hash, token, rows, None)
    }

    fn made(hash: String, token: u32, rows: u32, grid: Option<[u32; 2]>) -> Result<Rc<Self>> {
        if rows == 0 {
            return Err(Error::bad_option("no rows in place of tokens; leave them out"));
        }
        Ok(Rc::new(Self { hash, token, rows, grid, values: OnceCell::new() }))
    }

    /// As [`Embedded::new`], for a grid of `columns` x `rows`, row by row, in models with three position axes: all rows
    /// share the time, each has its row and column, counted from the position of the first, and the text behind goes on
    /// after the longer side.
    ///
    /// # Errors
    /// `BAD_OPTION` where there are no rows.
    pub fn in_grid(hash: String, token: u32, columns: u32, rows: u32) -> Result<Rc<Self>> {
        let n = columns.checked_mul(rows).ok_or_else(|| {
            Error::bad_option(format!("a grid of {columns} x {rows} in place of tokens is too large"))
        })?;
        Self::made(hash, token, n, Some([columns, rows]))
    }

    /// Positions that they take: as many as there are rows, but for grids.
    pub fn positions(&self) -> u32 {
        self.grid.map_or(self.rows, |[columns, rows]| columns.max(rows))
    }

    /// Gives the rows' values, f32 `[rows][D]`, as the residual stream takes them: a model's factor of embeddings is
    /// not applied. Values that are there stay.
    ///
    /// # Errors
    /// `BAD_OPTION` where they are not a whole number for each row, or not finite.
    pub fn fill(&self, values: Rc<[f32]>) -> Result<()> {
        if values.is_empty() || !values.len().is_multiple_of(self.rows as usize) {
            return Err(Error::bad_option(format!(
                "{} numbers for {} rows in place of tokens; each row has as many as the model is wide",
                values.len(),
                self.rows
            )));
        }
        if values.iter().any(|x| !x.is_finite()) {
            return Err(Error::bad_option("rows in place of tokens have a number that is not finite"));
        }
        let _ = self.values.set(values);
        Ok(())
    }

    /// How many rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The id that stands in their places.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// Their values, once they are there.
    pub fn values(&self) -> Option<&Rc<[f32]>> {
        self.values.get()
    }

    /// Whether both are the same rows.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (&self.hash, self.rows, self.token, self.grid) == (&other.hash, other.rows, other.token, other.grid)
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows {}", self.rows, self.hash)
    }
}

/// Rows of an [`Embedded`] in an input.
#[derive(Debug, Clone)]
struct Placed {
    /// Where the first of them stands.
    at: usize,
    /// Which of the rows it is, and how many there are of them.
    from: usize,
    n: usize,
    of: Rc<Embedded>,
}

impl Placed {
    fn end(&self) -> usize {
        self.at + self.n
    }

    /// What is in `range` of the input, as an input of its own has it.
    fn within(&self, range: &Range<usize>) -> Option<Self> {
        let (start, end) = (self.at.max(range.start), self.end().min(range.end));
        (start < end).then(|| Self {
            at: start - range.start,
            from: self.from + start - self.at,
            n: end - start,
            of: self.of.clone(),
        })
    }
}

/// A part of an input.
#[derive(Debug, Clone)]
pub enum Span<'a> {
    /// Tokens, by their ids.
    Tokens(&'a [u32]),
    /// Some of an [`Embedded`]'s rows.
    Rows(&'a Rc<Embedded>, Range<usize>),
}

/// What a model reads: a list of spans, in which every position has an id, its token's or the one that stands for its
/// row.
#[derive(Debug, Clone, Default)]
pub struct Input {
    ids: Vec<u32>,
    placed: Vec<Placed>,
}

impl Input {
    /// Positions.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// An id for every position.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The ids, with `of_rows` in place of the id of each embedded row.
    pub fn ids_with(&self, of_rows: Option<u32>) -> Cow<'_, [u32]> {
        let Some(id) = of_rows.filter(|_| self.has_rows()) else { return Cow::Borrowed(&self.ids) };
        let mut ids = self.ids.clone();
        self.placed.iter().for_each(|placed| ids[placed.at..placed.end()].fill(id));
        Cow::Owned(ids)
    }

    /// Whether any position has a row in place of a token.
    pub fn has_rows(&self) -> bool {
        !self.placed.is_empty()
    }

    /// Whether the input contains these rows.
    pub(crate) fn has(&self, rows: &Embedded) -> bool {
        self.placed.iter().any(|placed| placed.of.is(rows))
    }

    /// Tokens come next.
    pub fn push_tokens(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Rows come next.
    pub fn push_rows(&mut self, of: Rc<Embedded>) {
        let n = of.rows as usize;
        self.push(Placed { at: self.len(), from: 0, n, of });
    }

    /// Another input comes next.
    pub fn push_input(&mut self, other: &Self) {
        for span in other.spans() {
            match span {
                Span::Tokens(ids) => self.push_tokens(ids),
                Span::Rows(of, rows) => {
                    self.push(Placed { at: self.len(), from: rows.start, n: rows.len(), of: of.clone() })
                }
            }
        }
    }

    fn push(&mut self, placed: Placed) {
        self.ids.resize(self.len() + placed.n, placed.of.token);
        // Where a pass ended within a picture, the next one continues it.
        match self.placed.last_mut() {
            Some(last) if last.end() == placed.at && last.from + last.n == placed.from && last.of.is(&placed.of) => {
                last.n += placed.n
            }
            _ => self.placed.push(placed),
        }
    }

    /// Its spans, in order.
    pub fn spans(&self) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        let mut at = 0;
        for placed in &self.placed {
            spans.extend((at < placed.at).then(|| Span::Tokens(&self.ids[at..placed.at])));
            spans.push(Span::Rows(&placed.of, placed.from..placed.from + placed.n));
            at = placed.end();
        }
        spans.extend((at < self.len()).then(|| Span::Tokens(&self.ids[at..])));
        spans
    }

    /// What stands at these positions.
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self {
            placed: self.placed.iter().filter_map(|placed| placed.within(&range)).collect(),
            ids: self.ids[range].to_vec(),
        }
    }

    /// Forgets what comes after the first `n`.
    pub fn truncate(&mut self, n: usize) {
        if n < self.len() {
            *self = self.slice(0..n);
        }
    }

    /// At how many positions both begin alike: with the same tokens, and the same rows of the same hash.
    pub fn common(&self, other: &Self) -> usize {
        let common = self.ids.iter().zip(&other.ids).take_while(|(a, b)| a == b).count();
        // Equal ids say nothing of rows.
        let differ = |at: &usize| match (self.row(*at), other.row(*at)) {
            (Some((a, i)), Some((b, j))) => i != j || !a.is(b),
            (a, b) => a.is_some() || b.is_some(),
        };
        let rows = self.placed.iter().chain(&other.placed).flat_map(|placed| placed.at..placed.end().min(common));
        rows.filter(differ).min().unwrap_or(common)
    }

    /// The row at a position, by its number among the others, where there is one.
    fn row(&self, at: usize) -> Option<(&Rc<Embedded>, usize)> {
        let placed = self.placed.iter().find(|placed| placed.at <= at && at < placed.end())?;
        Some((&placed.of, placed.from + at - placed.at))
    }

    /// The first position from `at` on at which no rows would be cut apart.
    pub fn whole_from(&self, at: usize) -> usize {
        self.cut_at(at).map_or(at, Placed::end)
    }

    /// The last position up to `at` at which no rows would be cut apart.
    pub fn whole_until(&self, at: usize) -> usize {
        self.cut_at(at).map_or(at, |placed| placed.at)
    }

    /// The end of a pass of up to `rows` positions from `from` on that does not cut a picture, if `rows` can hold the
    /// picture.
    pub fn pass_end(&self, from: usize, rows: usize) -> usize {
        let end = (from + rows).min(self.len());
        Some(self.whole_until(end)).filter(|whole| *whole > from).unwrap_or(end)
    }

    /// The most rows that are of one picture.
    pub(crate) fn most_rows(&self) -> usize {
        self.placed.iter().map(|placed| placed.n).max().unwrap_or(0)
    }

    /// For each position begin and end of the picture that it is of, if the first position has slot `from` of the
    /// cache; 0 outside of pictures.
    pub(crate) fn pictures(&self, from: u32) -> Vec<[u32; 2]> {
        let mut all = vec![[0; 2]; self.len()];
        for placed in &self.placed {
            all[placed.at..placed.end()].fill([placed.at, placed.end()].map(|at| from + at as u32));
        }
        all
    }

    fn cut_at(&self, at: usize) -> Option<&Placed> {
        self.placed.iter().find(|placed| placed.at < at && at < placed.end())
    }

    /// Length of the prefix before the first row whose values have not been filled in.
    pub fn filled(&self) -> usize {
        self.placed.iter().find(|placed| placed.of.values.get().is_none()).map_or(self.len(), |placed| placed.at)
    }

    /// The values of rows, and the positions of the first of them, for a model that is `width` wide.
    ///
    /// # Errors
    /// `BAD_OPTION` where they are for another width, `INTERNAL` where they have not come yet.
    pub(crate) fn values(&self, width: usize) -> Result<Vec<(usize, &[f32])>> {
        let mut all = Vec::new();
        for Placed { at, from, n, of } in &self.placed {
            let values = of.values().ok_or_else(|| Error::internal("reading rows whose values have not come"))?;
            let has = values.len() / of.rows as usize;
            if has != width {
                return Err(Error::bad_option(format!(
                    "rows of {has} numbers in place of tokens, but the model is {width} wide"
                )));
            }
            all.push((*at, &values[from * width..(from + n) * width]));
        }
        Ok(all)
    }

    /// Whether any rows are grids.
    pub(crate) fn has_grids(&self) -> bool {
        self.placed.iter().any(|placed| placed.of.grid.is_some())
    }

    /// By how many its positions are fewer than the slots of the cache that it takes: of grids that end in it.
    /// transformers' `rope_deltas` is its negative.
    pub(crate) fn lag(&self) -> u32 {
        self.placed
            .iter()
            .filter(|placed| placed.from + placed.n == placed.of.rows as usize)
            .map(|placed| placed.of.rows - placed.of.positions())
            .sum()
    }

    /// Where each position is on the axes of time, rows and columns, and 0, if the first has slot `from` of the cache
    /// and what comes before it has that lag.
    pub(crate) fn axes(&self, from: u32, mut lag: u32) -> Vec<[u32; 4]> {
        let mut all = Vec::with_capacity(self.len());
        for span in self.spans() {
            let slot = from + all.len() as u32;
            match span {
                Span::Rows(of, rows) => {
                    // That of the first of all its rows, which can be in an earlier pass.
                    let first = slot - rows.start as u32 - lag;
                    let ends = rows.end == of.rows as usize;
                    all.extend(rows.map(|row| row as u32).map(|row| match of.grid {
                        Some([columns, _]) => [first, first + row / columns, first + row % columns, 0],
                        None => [first + row, first + row, first + row, 0],
                    }));
                    lag += if ends { of.rows - of.positions() } else { 0 };
                }
                Span::Tokens(ids) => all.extend((slot - lag..).take(ids.len()).map(|x| [x, x, x, 0])),
            }
        }
        all
    }

    /// What is kept of it, but for the values of rows.
    pub(crate) fn outline(&self) -> Outline {
        let rows = |placed: &Placed| {
            let Placed { at, from, n, of } = placed;
            OutlinedRows { at: *at, from: *from, n: *n, of: of.rows, hash: of.hash.clone(), grid: of.grid }
        };
        Outline { tokens: self.ids.clone(), rows: self.placed.iter().map(rows).collect() }
    }
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.common(other) == self.len()
    }
}

impl From<Vec<u32>> for Input {
    fn from(ids: Vec<u32>) -> Self {
        Self { ids, placed: Vec::new() }
    }
}

impl From<&[u32]> for Input {
    fn from(ids: &[u32]) -> Self {
        ids.to_vec().into()
    }
}

/// What is written of an [`Input`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outline {
    /// An id for every position.
    pub tokens: Vec<u32>,
    /// What stands in place of tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<OutlinedRows>,
}

/// Rows of an [`Embedded`] that has `of`, from number `from` on, at `n` positions from `at` on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OutlinedRows {
    at: usize,
    from: usize,
    n: usize,
    of: u32,
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grid: Option<[u32; 2]>,
}

impl Outline {
    /// The input, without the values of rows. `None` where it cannot be.
    pub fn input(self) -> Option<Input> {
        let mut placed: Vec<Placed> = Vec::new();
        for OutlinedRows { at, from, n, of, hash, grid } in self.rows {
            let ids = self.tokens.get(at..at.checked_add(n)?)?;
            let fits =
                n > 0 && from.checked_add(n)? <= of as usize && placed.last().is_none_or(|last| last.end() <= at);
            let token = *ids.first()?;
            if !fits || ids.iter().any(|id| *id != token) {
                return None;
            }
            let of = match grid {
                Some([columns, rows]) if columns.checked_mul(rows) == Some(of) => {
                    Embedded::in_grid(hash, token, columns, rows)
                }
                Some(_) => return None,
                None => Embedded::new(hash, token, of),
            };
            placed.push(Placed { at, from, n, of: of.ok()? });
        }
        Some(Input { ids: self.tokens, placed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid of 2 columns and 3 rows between tokens: it takes 6 slots and 3 positions.
    fn with_grid() -> Input {
        let mut input = Input::from(vec![1, 2]);
        input.push_rows(Embedded::in_grid("a".into(), 9, 2, 3).unwrap());
        input.push_tokens(&[3, 4]);
        input.push_rows(Embedded::new("b".into(), 9, 2).unwrap());
        input.push_tokens(&[5]);
        input
    }

    const AXES: [[u32; 3]; 13] = [
        [0; 3],
        [1; 3],
        [2, 2, 2],
        [2, 2, 3],
        [2, 3, 2],
        [2, 3, 3],
        [2, 4, 2],
        [2, 4, 3],
        [5; 3],
        [6; 3],
        [7; 3],
        [8; 3],
        [9; 3],
    ];

    #[test]
    fn rows_of_a_grid_have_places_and_take_the_longer_side() {
        let input = with_grid();
        assert_eq!((input.len(), input.lag(), input.has_grids()), (13, 3, true));
        // Wherever passes cut it apart.
        for first in 1..13 {
            for second in first..13 {
                let mut found = Vec::new();
                let mut lag = 0;
                for range in [0..first, first..second, second..13] {
                    let part = input.slice(range.clone());
                    found.extend(part.axes(range.start as u32, lag));
                    lag += part.lag();
                }
                assert_eq!(found, AXES.map(|[time, row, column]| [time, row, column, 0]), "{first}, {second}");
                assert_eq!(lag, 3);
            }
        }
        assert_eq!(Input::from(vec![1, 2]).axes(7, 3), [[4, 4, 4, 0], [5, 5, 5, 0]]);
        assert!(
            Embedded::in_grid("a".into(), 9, 0, 3).is_err()
                && Embedded::in_grid("a".into(), 9, 1 << 16, 1 << 16).is_err()
        );
    }

    #[test]
    fn grids_are_kept_with_their_sides() {
        let input = with_grid();
        let text = serde_json::to_string(&input.outline()).unwrap();
        let kept: Outline = serde_json::from_str(&text).unwrap();
        assert_eq!(kept.input().unwrap(), input);
        for other in [text.replace("[2,3]", "[3,2]"), text.replace(",\"grid\":[2,3]", "")] {
            let other: Outline = serde_json::from_str(&other).unwrap();
            assert_ne!(other.input().unwrap(), input);
        }
        let wrong: Outline = serde_json::from_str(&text.replace("[2,3]", "[2,4]")).unwrap();
        assert!(wrong.input().is_none());
    }
}
