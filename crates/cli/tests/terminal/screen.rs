//! What a terminal shows of what was written to it, as far as the command uses one: CUU, ED and EL of ECMA-48.

/// The lines that are there at the end.
pub(crate) fn at_the_end(written: &str) -> String {
    let (mut lines, mut row, mut column) = (vec![Vec::<char>::new()], 0, 0);
    let mut letters = written.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\r' => column = 0,
            '\x1b' if letters.next_if_eq(&'[').is_some() => {
                let mut number = String::new();
                while let Some(digit) = letters.next_if(|c| c.is_ascii_digit() || *c == ';' || *c == '?') {
                    number.push(digit);
                }
                let count = number.parse().unwrap_or(1);
                match letters.next() {
                    Some('A') => row = row.saturating_sub(count),
                    Some('B') => row = (row + count).min(lines.len() - 1),
                    Some('J') => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    Some('K') => lines[row].truncate(if number == "2" { 0 } else { column }),
                    _ => {}
                }
            }
            letter => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
    }
    let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned() + "\n";
    lines.iter().map(text).collect::<String>().trim_end().to_owned() + "\n"
}
