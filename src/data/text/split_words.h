// Sentences cut into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What stands between blanks (ASCII).
std::vector<std::string_view> split_blanks(std::string_view sentence);

/// The words of the tokenizer "13a": punctuation and symbols of ASCII are words of their own, except full stops and
/// commas between digits, hyphens that do not follow a digit, and apostrophes; &quot; &amp; &lt; &gt; are replaced by
/// their characters. Source: NIST's mteval-v13a.pl, as sacrebleu (M. Post, "A call for clarity in reporting BLEU
/// scores", WMT 2018) applies it.
std::vector<std::string> split_13a(std::string_view sentence);

}  // namespace trireme
