// What the program prints about itself for packages and tests, by options that its --help leaves out.
#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <string>
#include <vector>

namespace trireme {

/// Of a command's words, the program's own left out: whether print_pages is to be called.
bool requests_pages(const std::vector<std::string>& words);

/// `--print-completion SHELL`, `--print-man [VERB]` (trireme.1, or trireme-VERB.1), `--write-man FOLDER` (all pages),
/// `--write-help FOLDER` (what --help, --version and `trireme help` print, for front.cpp).
/// Errors (user): unknown shells and verbs, too many words.
void print_pages(const CLI::App& app, const std::vector<std::string>& words, std::ostream& out);

}  // namespace trireme
