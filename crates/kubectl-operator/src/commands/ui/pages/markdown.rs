//! A catalog's Markdown as HTML. Its publisher is not trusted: only the tags below are written, all text is escaped, HTML in the text
//! is shown as text, images are their descriptions, and links lead to web addresses only.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use crate::terminal::escape;

/// Maximum number of lines of a description.
const MAX_LINES: usize = 400;

/// Renders a text.
pub(super) fn markdown(text: &str) -> Markup {
    let text = text.trim();
    let shown: String = text.split_inclusive('\n').take(MAX_LINES).collect();
    let more = text.lines().count() - shown.lines().count();
    let mut page = Page::default();
    for event in Parser::new_ext(&shown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        page.add(event);
    }
    html! {
        div.prose { (PreEscaped(page.html)) }
        @if more > 0 { p { "and " (more) " more lines" } }
    }
}

/// The HTML so far.
#[derive(Default)]
struct Page {
    html: String,
    /// Closing tags of the open elements; empty for those without tags.
    open: Vec<&'static str>,
    is_in_head: bool,
}

impl Page {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.foreign(&text),
            Event::Code(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            // Not enabled.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
            Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if let Tag::Link { dest_url, .. } = tag {
            return self.start_link(dest_url);
        }
        self.is_in_head = match tag {
            Tag::TableHead => true,
            Tag::TableRow => false,
            _ => self.is_in_head,
        };
        let (start, end) = match tag {
            Tag::Paragraph | Tag::HtmlBlock => ("<p>", "</p>"),
            // The page has titles of the first two levels.
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => ("<h3>", "</h3>"),
                HeadingLevel::H2 => ("<h4>", "</h4>"),
                HeadingLevel::H3 => ("<h5>", "</h5>"),
                _ => ("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(_) => ("<pre tabindex=\"0\"><code>", "</code></pre>"),
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::List(Some(_)) => ("<ol>", "</ol>"),
            Tag::Item => ("<li>", "</li>"),
            Tag::Table(_) => ("<table>", "</tbody></table>"),
            Tag::TableHead => ("<thead><tr>", "</tr></thead><tbody>"),
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell if self.is_in_head => ("<th scope=\"col\">", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<s>", "</s>"),
            // The text of an image is its description.
            _ => ("", ""),
        };
        self.html.push_str(start);
        self.open.push(end);
    }

    fn start_link(&mut self, to: &str) {
        let is_web = to.starts_with("https://") || to.starts_with("http://");
        if !is_web || !to.chars().all(|letter| letter.is_ascii_graphic()) {
            self.open.push("");
            return;
        }
        self.html
            .push_str("<a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"");
        self.text(to);
        self.html.push_str("\">");
        self.open.push("</a>");
    }

    fn end(&mut self) {
        self.html.push_str(self.open.pop().unwrap_or_default());
    }

    /// Adds HTML of the text: a line break as such, no comments, and all else as text.
    fn foreign(&mut self, text: &str) {
        let tag: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        match tag.to_ascii_lowercase().as_str() {
            "<br>" | "<br/>" => self.html.push_str("<br>"),
            comment if comment.starts_with("<!--") && comment.ends_with("-->") => {}
            _ => self.text(text),
        }
    }

    fn text(&mut self, text: &str) {
        self.html.push_str(&html! { (escape(text)) }.into_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let html = markdown(text).into_string().replace('\n', " ");
        let inner = html
            .strip_prefix("<div class=\"prose\">")
            .expect("a block of prose");
        inner.split("</div>").next().expect("text").trim().to_owned()
    }

    #[test]
    fn what_descriptions_use_is_rendered() {
        for (text, expected) in [
            (
                "# Etcd\nKeeps *keys*.",
                "<h3>Etcd</h3><p>Keeps <em>keys</em>.</p>",
            ),
            ("### A\n#### B\n##### C", "<h5>A</h5><h6>B</h6><h6>C</h6>"),
            (
                "* one\n* **two**",
                "<ul><li>one</li><li><strong>two</strong></li></ul>",
            ),
            (
                "1. a\n2. `b<c`",
                "<ol><li>a</li><li><code>b&lt;c</code></li></ol>",
            ),
            (
                "```yaml\na: <b>\n```",
                "<pre tabindex=\"0\"><code>a: &lt;b&gt; </code></pre>",
            ),
            ("> quoted", "<blockquote><p>quoted</p></blockquote>"),
            (
                "| a | b |\n|---|---|\n| 1 | 2 |",
                "<table><thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
            ),
            ("a<br/>b", "<p>a<br>b</p>"),
            ("a<!-- hidden -->b", "<p>ab</p>"),
            (
                "[docs](https://example.com/?a=1&b=2 \"title\")",
                "<p><a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"https://example.com/?a=1&amp;b=2\">docs</a></p>",
            ),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    /// The publisher of a catalog chooses the text.
    #[test]
    fn nothing_of_it_is_a_script_or_is_loaded() {
        for (text, expected) in [
            (
                "<script>alert(1)</script>",
                "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
            ),
            ("a <b onclick=x>", "<p>a &lt;b onclick=x&gt;</p>"),
            ("![logo](https://example.com/x.png)", "<p>logo</p>"),
            ("[x](javascript:alert(1))", "<p>x</p>"),
            ("[x](JaVaScRiPt:alert(1))", "<p>x</p>"),
            ("[x](data:text/html,y)", "<p>x</p>"),
            ("[x](operators?namespace=)", "<p>x</p>"),
            ("[x](//example.com)", "<p>x</p>"),
            ("a\u{202e}b\u{1b}[2J", "<p>a\\u{202e}b\\u{1b}[2J</p>"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        let quoted = of("[x](<https://a/\"onmouseover=\"y>)");
        assert!(!quoted.contains("/\"onmouseover"), "{quoted}");
    }

    #[test]
    fn it_is_bounded() {
        let long = markdown(&"line\n\n".repeat(MAX_LINES)).into_string();
        assert!(long.contains("and 399 more lines"), "{long}");
    }
}
