//! Code blocks of a guide, with the settings in its comments for tests.

/// A block of code.
#[derive(Debug)]
pub struct Block<'a, M> {
    /// Line number of its opening fence, starting at 1.
    pub line: usize,
    /// Text after the fence, that is the language.
    pub language: &'a str,
    /// Mode from the comment right before it.
    pub mode: Option<M>,
    /// Its lines with their numbers, without the fences.
    pub lines: Vec<(usize, &'a str)>,
}

/// Returns the blocks of a guide, in order. A comment for tests is `<!-- test: WORDS -->`; `mode` parses the words.
///
/// # Errors
/// If a comment for tests is unknown or not right before a block, or if a block has no end.
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
