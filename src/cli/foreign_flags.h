// Flags that users know from other programs, and what Trireme has instead.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Returns what to write instead of `flag`, which the verb does not have: "write --set batch=64; ". `given`: the words
/// of the command line, from which the flag's value is taken. "" if the flag is not a known one, or if the verb has
/// nothing in its place.
std::string own_word_for(const CLI::App& verb, const std::string& flag, const std::vector<std::string>& given);

/// Errors (user): `assignment`, "lr=0.1", sets a key by another program's name; the error says what to write.
void refuse_foreign_key(const std::string& assignment);

/// Throws a user error if `text` is a number alone. It was given to --epochs in a verb where --epochs means the epochs
/// to the target; the user probably means the length of training, which is a key of the experiment. `batch`: the
/// experiment's.
void refuse_length_as_epochs(const std::string& text, int64_t batch);

}  // namespace trireme
