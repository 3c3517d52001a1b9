#include "cli/printed_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "base/file.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/help_page.h"
#include "cli/known_names.h"
#include "cli/man_page.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kCompletion = "--print-completion";
constexpr const char* kMan = "--print-man";
constexpr const char* kWriteMan = "--write-man";
constexpr const char* kWriteHelp = "--write-help";

const VerbFacts& verb_of(const VerbFacts& program, const std::string& name) {
  std::vector<std::string> names;
  for (const VerbFacts& verb : program.verbs) {
    if (verb.path == name) return verb;
    names.push_back(verb.path);
  }
  fail_user({kMan, "\"" + name + "\"", "is not a verb", "known are " + join(names)});
}

void write_page(const std::filesystem::path& path, const std::string& page) {
  AtomicFile file(path);
  file.write(page);
  file.commit();
}

void write_man_pages(const VerbFacts& program, const std::filesystem::path& folder) {
  const auto path = [&](const VerbFacts& verb) { return folder / (man_page_name(verb) + ".1"); };
  write_page(path(program), program_man_page(program));
  for (const VerbFacts& verb : program.verbs) write_page(path(verb), verb_man_page(program, verb));
}

void write_verb_help(const CLI::App& app, const std::string& words, const std::filesystem::path& folder) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    write_page(folder / ("verb" + words + " " + verb->get_name()), verb->help());
    write_verb_help(*verb, words + " " + verb->get_name(), folder);
  }
}

/// Writes the pages that front.cpp prints, each in a file with the name that front.cpp gives it.
void write_help_pages(const CLI::App& app, const std::filesystem::path& folder) {
  write_page(folder / "program", app.help());
  write_verb_help(app, "", folder);
  write_page(folder / "version", app.version() + "\n");
  for (const std::string& topic : name_topics())
    write_page(folder / ("list " + topic), wrapped_sections(known_names(topic)));
}

}  // namespace

bool requests_pages(const std::vector<std::string>& words) {
  return !words.empty() &&
         (words[0] == kCompletion || words[0] == kMan || words[0] == kWriteMan || words[0] == kWriteHelp);
}

void print_pages(const CLI::App& app, const std::vector<std::string>& words, std::ostream& out) {
  const VerbFacts program = command_line_facts(app);
  const bool is_whole_manual = words[0] == kMan && words.size() == 1;
  if (words.size() != (is_whole_manual ? 1 : 2))
    fail_user({words[0], join(words, " "), "takes one word",
               fmt::format("{} {}", words[0],
                           words[0] == kCompletion ? join(completed_shells(), "|")
                           : words[0] == kMan      ? "VERB"
                                                   : "FOLDER")});
  if (words[0] == kWriteMan || words[0] == kWriteHelp) std::filesystem::create_directories(words[1]);
  if (is_whole_manual) out << program_man_page(program);
  else if (words[0] == kMan) out << verb_man_page(program, verb_of(program, words[1]));
  else if (words[0] == kCompletion) out << completion_script(words[1], program);
  else if (words[0] == kWriteMan) write_man_pages(program, words[1]);
  else write_help_pages(app, words[1]);
}

}  // namespace trireme
