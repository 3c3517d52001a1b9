#include "cli/printed_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "base/file.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kCompletion = "--print-completion";
constexpr const char* kMan = "--print-man";
constexpr const char* kWriteMan = "--write-man";

const VerbFacts& verb_of(const VerbFacts& program, const std::string& name) {
  std::vector<std::string> names;
  for (const VerbFacts& verb : program.verbs) {
    if (verb.path == name) return verb;
    names.push_back(verb.path);
  }
  fail_user({kMan, "\"" + name + "\"", "is not a verb", "known are " + join(names)});
}

void write_man_pages(const VerbFacts& program, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const VerbFacts& verb, const std::string& page) {
    AtomicFile file(folder / (man_page_name(verb) + ".1"));
    file.write(page);
    file.commit();
  };
  write(program, program_man_page(program));
  for (const VerbFacts& verb : program.verbs) write(verb, verb_man_page(program, verb));
}

}  // namespace

bool requests_pages(const std::vector<std::string>& words) {
  return !words.empty() && (words[0] == kCompletion || words[0] == kMan || words[0] == kWriteMan);
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
  if (is_whole_manual) out << program_man_page(program);
  else if (words[0] == kMan) out << verb_man_page(program, verb_of(program, words[1]));
  else if (words[0] == kCompletion) out << completion_script(words[1], program);
  else write_man_pages(program, words[1]);
}

}  // namespace trireme
