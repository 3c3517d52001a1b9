#include "cli/help_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/help_page.h"
#include "cli/known_names.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_below(app)) names.push_back(verb->get_name());
  return names;
}

/// "plan best": the words that lead to a verb; empty for the program.
std::string path_to(const CLI::App& verb) {
  if (!verb.get_parent()) return "";
  const std::string above = path_to(*verb.get_parent());
  return above.empty() ? verb.get_name() : above + " " + verb.get_name();
}

const CLI::App& verb_below(const CLI::App& app, const std::string& word) {
  for (const CLI::App* verb : verbs_below(app))
    if (verb->get_name() == word) return *verb;
  std::vector<std::string> known = names_below(app);
  if (!app.get_parent()) known.insert(known.end(), name_topics().begin(), name_topics().end());
  const std::string near = closest_match(word, known);
  const std::string place = app.get_parent() ? "help " + path_to(app) : "help";
  fail_user({place, "\"" + word + "\"", known.empty() ? "there are no verbs below this one" : "there is no such verb",
             known.empty()  ? "leave it out"
             : near.empty() ? "known are " + join(known)
                            : "did you mean " + near + "?"});
}

}  // namespace

void use_help_pages(CLI::App& program) {
  program.formatter_fn([](const CLI::App* verb, const std::string&, CLI::AppFormatMode) {
    return help_page(command_line_facts(*verb));
  });
}

void add_help(CLI::App& program, std::vector<std::string>& words) {
  std::vector<std::string> offered = names_below(program);
  offered.insert(offered.end(), name_topics().begin(), name_topics().end());
  auto* verb = program.add_subcommand("help", "print the help of a verb, or a list of names");
  std::vector<std::string> below;
  for (const CLI::App* one : verbs_below(program))
    for (const std::string& name : names_below(*one))
      if (std::find(below.begin(), below.end(), name) == below.end()) below.push_back(name);
  using Words = std::vector<std::string>;
  const auto braces = [](const Words& choices) { return "{" + join(choices, ",") + "}"; };  // completion offers these
  verb->add_option_function<std::string>(
          "verb", [&words](const std::string& word) { words.push_back(word); },
          "a verb; or names: " + join(name_topics()))
      ->type_name(braces(offered));
  verb->add_option_function<Words>(
          "below", [&words](const Words& given) { words.insert(words.end(), given.begin(), given.end()); },
          "the verb below it, as in plan best")
      ->expected(0, -1)
      ->type_name(braces(below));
  program.footer(fmt::format("Lists of names: trireme help {}. Guides: README.md, docs/.", join(name_topics(), "|")));
}

int run_help(const CLI::App& program, const std::vector<std::string>& words, std::ostream& out) {
  const auto& topics = name_topics();
  if (!words.empty() && std::find(topics.begin(), topics.end(), words[0]) != topics.end()) {
    if (words.size() > 1)
      fail_user({"help " + words[0], "\"" + words[1] + "\"", "a list of names stands alone", "leave it out"});
    out << wrapped_sections(known_names(words[0]));
    return 0;
  }
  const CLI::App* verb = &program;
  for (const std::string& word : words) verb = &verb_below(*verb, word);
  out << help_page(command_line_facts(*verb));
  return 0;
}

}  // namespace trireme
