// The --help of the program and of its verbs: pages for a terminal, written from the same facts as the man pages.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_line.h"

namespace trireme {

constexpr int kHelpColumns = 80;  ///< no line of a page is longer

/// Description, usage, arguments, options, verbs and footer.
std::string help_page(const VerbFacts& verb);

/// Wraps a text of "Title:" lines, rows "  name  what it is" and sentences. The continuations of a row begin below its
/// second column.
std::string wrapped_sections(std::string_view text);

}  // namespace trireme
