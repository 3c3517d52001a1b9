#include "cli/help_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/examples.h"
#include "cli/groups.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr size_t kMostColumnsOfNames = 26;  // with the gap; a longer name has a line of its own

struct HelpRow {
  std::string name, text;
};

/// Returns the text wrapped, with all its lines beginning in this column.
std::string in_column(size_t column, std::string_view text) {
  return join(wrap(text, kHelpColumns - int(column)), "\n" + std::string(column, ' '));
}

/// Two columns below a title. The second begins at the same place in all rows.
std::string rows_of(const std::string& title, const std::vector<HelpRow>& rows) {
  if (rows.empty()) return "";
  size_t column = 0;
  for (const HelpRow& row : rows) {
    const size_t needed = row.name.size() + 4;
    if (needed <= kMostColumnsOfNames) column = std::max(column, needed);
  }
  if (column == 0) column = kMostColumnsOfNames;
  std::string text = fmt::format("\n{}:\n", title);
  for (const HelpRow& row : rows) {
    const std::string name = "  " + row.name;
    const bool has_room = name.size() + 2 <= column;
    text += has_room ? fmt::format("{:<{}}", name, column) : fmt::format("{}\n{:<{}}", name, "", column);
    text += in_column(column, row.text) + "\n";
  }
  return text;
}

HelpRow row_of(const OptionFacts& option) {
  std::string name = join(option.names, ",");
  if (!option.value.empty() && option.value != name) name += " " + option.value;
  return {name, full_help(option)};
}

/// The options, by their titles.
std::string option_rows(const VerbFacts& verb) {
  std::string text;
  for (const std::string& group : option_groups()) {
    std::vector<HelpRow> rows;
    for (const OptionFacts& option : verb.options)
      if (option.group == group) rows.push_back(row_of(option));
    text += rows_of(group, rows);
  }
  return text;
}

/// The verbs: those of the program by their titles, those below a verb under one title.
std::string verb_rows(const VerbFacts& verb) {
  if (verb.verbs.empty()) return "";
  std::string text;
  for (const std::string& group : verb_groups()) {
    std::vector<HelpRow> rows;
    for (const VerbFacts& below : verb.verbs)
      if (below.group == group) rows.push_back({below.last_word(), below.help});
    text += rows_of(group, rows);
  }
  if (!text.empty()) return text;
  std::vector<HelpRow> rows;
  for (const VerbFacts& below : verb.verbs) rows.push_back({below.last_word(), below.help});
  return rows_of("Verbs", rows);
}

std::string usage_of(const VerbFacts& verb) {
  const std::string begin = fmt::format("Usage: {} ", verb.name);
  std::string words = "[OPTIONS]";
  for (const OptionFacts& argument : verb.arguments)
    words += argument.is_required ? " " + argument.label() : " [" + argument.label() + "]";
  if (!verb.verbs.empty()) words += " VERB ...";
  return begin + in_column(begin.size(), words) + "\n";
}

}  // namespace

std::string wrapped_sections(std::string_view text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t name = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", name);
    const size_t second = gap == line.npos ? name : line.find_first_not_of(' ', gap);
    result += std::string(line.substr(0, second)) + in_column(second, line.substr(second)) + "\n";
  }
  return result;
}

/// " (examples/ is ...)" if a command reads a file there.
static std::string place_of_examples(const VerbFacts& verb) {
  return name_examples(verb.examples) ? fmt::format(" ({})", kWhereExamplesAre) : "";
}

std::string help_page(const VerbFacts& verb) {
  std::string text = in_column(0, verb.help) + "\n" + usage_of(verb);
  std::vector<HelpRow> arguments;
  for (const OptionFacts& argument : verb.arguments) arguments.push_back(row_of(argument));
  text += rows_of("Arguments", arguments) + verb_rows(verb) + option_rows(verb);
  if (!verb.footer.empty()) text += "\n" + wrapped_sections(verb.footer);
  if (!verb.examples.empty())
    text += "\nExamples" + place_of_examples(verb) + ":\n  " + join(verb.examples, "\n  ") + "\n";
  return text;
}

}  // namespace trireme
