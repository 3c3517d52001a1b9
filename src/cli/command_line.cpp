#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/examples.h"

namespace trireme {
namespace {

constexpr size_t kLongestSummary = 90;  // characters

OptionFacts option_facts(const CLI::Option& option) {
  OptionFacts facts;
  facts.help = option.get_description();
  facts.offered = offered_values(option);
  facts.is_required = option.get_required();
  facts.is_repeatable = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  if (option.get_positional()) {
    facts.names = {option.get_name(true)};
    facts.value = option.get_name(true);
    return facts;
  }
  facts.group = option.get_group();
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return facts;  // a flag
  const std::string type = option.get_type_name();
  const bool is_choice = type.find('{') != type.npos;
  facts.value = is_choice ? join(facts.offered.words, "|") : type == "INT" || type == "UINT" ? "N" : type;
  if (facts.offered.is_list && !facts.value.ends_with("...")) facts.value += ",...";
  facts.default_value = option.get_default_str();
  return facts;
}

VerbFacts verb_facts(const CLI::App& app, const std::string& name, const std::string& path) {
  VerbFacts facts;
  facts.name = name;
  facts.path = path;
  facts.help = app.get_description();
  facts.group = app.get_group();
  facts.footer = app.get_footer();
  facts.examples = examples_of(path);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? facts.arguments : facts.options).push_back(option_facts(*option));
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    facts.verbs.push_back(
        verb_facts(*verb, name + " " + verb->get_name(), (path.empty() ? "" : path + " ") + verb->get_name()));
  return facts;
}

}  // namespace

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return text;
}

std::string OptionFacts::label() const { return upper(value); }

VerbFacts command_line_facts(const CLI::App& app) {
  std::vector<std::string> verbs;
  const CLI::App* program = &app;
  for (; program->get_parent(); program = program->get_parent()) verbs.insert(verbs.begin(), program->get_name());
  const std::string path = join(verbs, " ");
  return verb_facts(app, path.empty() ? program->get_name() : fmt::format("{} {}", program->get_name(), path), path);
}

std::string full_help(const OptionFacts& option) {
  std::string help = option.help;
  if (!option.default_value.empty()) help += fmt::format(" (default: {})", option.default_value);
  if (option.is_repeatable && !option.offered.is_list) help += "; may be given several times";
  return help;
}

std::string summary(const std::string& help) {
  size_t end = help.size();
  for (const char* stop : {"; ", " (", ": ", ", for example", "\n"}) end = std::min(end, help.find(stop));
  if (end <= kLongestSummary) return help.substr(0, end);
  return help.substr(0, help.rfind(' ', kLongestSummary)) + " ...";
}

}  // namespace trireme
