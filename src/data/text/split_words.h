// Cuts sentences into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns the parts of the sentence between blanks (ASCII).
std::vector<std::string_view> split_blanks(std::string_view sentence);

/// Returns the words of the tokenizer "13a". ASCII punctuation and symbols are words of their own, except full stops
/// and commas between digits, hyphens that do not follow a digit, and apostrophes. &quot; &amp; &lt; &gt; are replaced
/// by their characters. Source: NIST's mteval-v13a.pl, as applied by sacrebleu (M. Post, "A call for clarity in
/// reporting BLEU scores", WMT 2018).
std::vector<std::string> split_13a(std::string_view sentence);

}  // namespace trireme
