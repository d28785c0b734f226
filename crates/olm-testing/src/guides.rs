//! The code blocks of a guide, with what its comments for tests say of them.

/// A block of code.
#[derive(Debug)]
pub struct Block<'a, M> {
    /// Line of its fence, from 1.
    pub line: usize,
    /// What stands behind the fence.
    pub language: &'a str,
    /// What the comment right before it says.
    pub mode: Option<M>,
    /// Its lines with their numbers, without the fences.
    pub lines: Vec<(usize, &'a str)>,
}

/// The blocks of a guide, in order. A comment is `<!-- test: WORDS -->`; `mode` understands the words.
///
/// # Errors
/// A comment for tests that is not understood or has no block, a block without end.
pub fn blocks<M>(text: &str, mode: impl Fn(&str) -> Option<M>) -> Result<Vec<Block<'_, M>>, String> {
    let (mut blocks, mut comment) = (Vec::new(), None);
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        if let Some(words) = line.strip_prefix("<!-- test: ") {
            let known = words.strip_suffix(" -->").and_then(&mode);
            comment = Some(known.ok_or_else(|| format!("line {number}: unknown comment: {line}"))?);
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            if comment.is_some() {
                return Err(format!(
                    "line {number}: a comment for tests belongs right before a block"
                ));
            }
            continue;
        };
        let mut block = Vec::new();
        loop {
            match lines.next() {
                Some((_, "```")) => break,
                Some(line) => block.push(line),
                None => return Err(format!("line {number}: a block without end")),
            }
        }
        blocks.push(Block {
            line: number,
            language,
            mode: comment.take(),
            lines: block,
        });
    }
    Ok(blocks)
}
