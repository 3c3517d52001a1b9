#include "trireme/program.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "cli/foreign_flags.h"
#include "cli/groups.h"
#include "cli/help_command.h"
#include "cli/option_values.h"
#include "cli/plan_command.h"
#include "cli/printed_pages.h"
#include "cli/train_process.h"
#include "cli/verbs.h"
#include "trireme/error.h"

namespace {

using trireme::kRunFailed;
using trireme::kUserError;

std::string version_text() {
  const trireme::Version version = trireme::version();
  return fmt::format("trireme {}{}\nlibtorch {}\nbackends {}", version.number,
                     version.commit.empty() ? "" : fmt::format(" (commit {})", version.commit), version.libtorch,
                     trireme::join(version.backends));
}

/// Returns the deepest verb on the command line; messages refer to its --help.
const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
}

/// Suggests the flag or verb nearest to an unrecognised word.
std::string suggestion(const CLI::App* app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app->get_options()) known.push_back(option->get_name());
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(verb->get_name());
  const std::string near = trireme::closest_match(word.substr(0, word.find('=')), known);
  return near.empty() ? "" : "did you mean " + near + "? ";
}

/// Returns an assignment without its own --set, such as the second of `--set a=1 b=2`; the parser may have taken it for
/// the experiment. "" if there is none.
std::string stray_assignment(const CLI::App* verb, const std::vector<std::string>& surplus) {
  if (verb->get_option_no_throw("--set") == nullptr) return "";
  std::vector<std::string> words;
  if (const CLI::Option* experiment = verb->get_option_no_throw("experiment")) words = experiment->results();
  words.insert(words.end(), surplus.begin(), surplus.end());
  for (const std::string& word : words)
    if (!word.starts_with('-') && word.find('=') != word.npos) return word;
  return "";
}

/// Suggests where on the command line an unrecognised word belongs, as in `trireme launch train EXPERIMENT -n 2`; "" if
/// nowhere.
std::string misplaced(const CLI::App& app, const CLI::App* verb, const std::string& word) {
  const CLI::App* above = verb->get_parent();
  const bool is_flag = word.starts_with('-');
  if (is_flag && above && above->get_parent() && above->get_option_no_throw(word.substr(0, word.find('='))))
    return fmt::format("{} is for {}: write it before {}; ", word, full_name(above), verb->get_name());
  const auto is_it = [&](const CLI::App* one) { return one->get_name() == word; };
  if (!is_flag && verb->get_name() == "launch" && !app.get_subcommands(is_it).empty())
    return "launch starts train and compare only; ";
  return "";
}

/// Returns the verb, among a verb and those above it, that has the flag with which an error's text begins.
const CLI::App* owner_of(const CLI::App* verb, const std::string& text) {
  const std::string flag = text.substr(0, text.find(':'));
  for (const CLI::App* app = verb; app && flag.starts_with('-'); app = app->get_parent())
    if (app->get_option_no_throw(flag)) return app;
  return verb;
}

/// Returns what a command lacks, and an example of one that has it. `text`: the parser's, "experiment is required".
std::string missing(const CLI::App& verb, const std::string& text) {
  const std::string name = text.substr(0, text.find(' ')), command = full_name(&verb);
  std::string what = text;
  if (const CLI::Option* option = verb.get_option_no_throw(name)) {
    what = fmt::format("{} is missing ({})", name, trireme::summary(option->get_description()));
  } else {
    std::vector<std::string> below;
    for (const CLI::App* one : verb.get_subcommands([](const CLI::App*) { return true; }))
      below.push_back(one->get_name());
    if (!below.empty()) what = fmt::format("a verb is missing ({})", trireme::join(below));
  }
  for (const std::string& example : trireme::examples_of(command.substr(command.find(' ') + 1)))
    if (example.starts_with(command + " ")) return fmt::format("{}; for example: {}", what, example);
  return what;
}

/// Rewrites the parser's "folder: At Most 2 required but received 3".
std::string number_of_values(const std::string& text) {
  static const std::regex pattern(R"((.*): At (Most|Least) (\d+) required but received (\d+))");
  std::smatch parts;
  if (!std::regex_match(text, parts, pattern)) return text;
  return fmt::format("{}: {} given, at {} {} {} possible", parts.str(1), parts.str(4),
                     parts.str(2) == "Most" ? "most" : "least", parts.str(3), parts.str(3) == "1" ? "is" : "are");
}

/// `given`: the words of the command line.
int report_usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& given) {
  const auto words = app.remaining(true);
  const CLI::App* verb = words.empty() ? owner_of(deepest(&app), trireme::first_line(error)) : deepest(&app);
  std::string what = number_of_values(trireme::first_line(error)), hint;
  if (dynamic_cast<const CLI::RequiredError*>(&error)) what = missing(*verb, what);
  if (const std::string assignment = words.empty() ? "" : stray_assignment(verb, words); !assignment.empty()) {
    what = assignment + ": unknown argument";
    hint = "each key=value needs a --set of its own; ";
  } else if (!words.empty()) {
    const bool flag = words.front().starts_with('-');
    what = fmt::format("{}: unknown {}", words.front(),
                       flag                                                                  ? "flag"
                       : verb->get_subcommands([](const CLI::App*) { return true; }).empty() ? "argument"
                                                                                             : "verb");
    hint = misplaced(app, verb, words.front());
    if (hint.empty()) hint = trireme::own_word_for(*verb, words.front(), given);
    if (hint.empty()) hint = suggestion(verb, words.front());
  }
  std::cerr << "trireme: " << what << "; " << hint << "see " << full_name(verb) << " --help\n";
  return kUserError;
}

/// Returns an argument without a value: `--epochs ""` and `--epochs=` would be ignored like a missing flag.
std::string empty_argument(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.empty()) return i > 1 && argv[i - 1][0] == '-' ? argv[i - 1] : fmt::format("argument {}", i);
    if (word.starts_with("--") && word.find('=') == word.size() - 1) return word.substr(0, word.size() - 1);
  }
  return "";
}

/// `trireme --parse-only train ...` parses the command and runs nothing.
constexpr const char* kParseOnly = "--parse-only";

int print_pages_or_error(const CLI::App& app, const std::vector<std::string>& words) {
  try {
    trireme::print_pages(app, words, std::cout);
    return 0;
  } catch (const trireme::Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kUserError;
  }
}

/// Parses the words of the command line. Returns the exit code if no verb is to run: after --help, --version and
/// --parse-only, and after an error, which it has printed.
std::optional<int> parse_words(CLI::App& app, const std::vector<std::string>& given) {
  std::vector<std::string> words = given;
  const bool parses_only = words[0] == kParseOnly;
  if (parses_only) words.erase(words.begin());
  try {
    words = trireme::with_plan_verb(std::move(words));
    std::reverse(words.begin(), words.end());  // the parser expects the reverse order
    app.parse(std::move(words));
    return parses_only ? std::optional(0) : std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return trireme::reports_for_command() ? report_usage_error(app, error, given) : kUserError;
  }
}

/// Runs the verb that was parsed, and prints its error if it ends by one. Returns the exit code.
int run_parsed(const CLI::App& app, const std::vector<trireme::ProgramVerb>& verbs) {
  bool is_alike = true;  // true while an error would appear in every process that a launcher started with this command
  try {
    trireme::set_up_logging();
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const trireme::ProgramVerb& one) { return app.got_subcommand(one.name); });
    if (verb->alone) trireme::check_started_once(verb->name);
    is_alike = false;
    return verb->run();
  } catch (const trireme::Error& error) {
    if (!is_alike || trireme::reports_for_command()) std::cerr << "trireme: " << error.what() << "\n";
    return error.blame() == trireme::Blame::user ? kUserError : kRunFailed;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << trireme::first_line(error) << "\n";
    return kRunFailed;
  }
}

/// Returns the exit code `code`, or that of a failed run if what was printed could not be written, for example to a
/// file on a full disk. That the reader of the output has ended is no failure.
int with_output_written(int code) {
  const bool was_lost = !std::cout;
  if (was_lost) {  // the reason shows when more is written
    std::cout.clear();
    std::cout << '\n';
  }
  errno = 0;
  std::cout.flush();
  const int reason = std::cout ? 0 : errno;
  const bool has_no_reader = reason == EPIPE || (reason == EIO && isatty(STDOUT_FILENO) != 0);
  if (has_no_reader || (!was_lost && reason == 0)) return code;
  std::cerr << "trireme: standard output: "
            << (reason == 0 ? std::string("a part was lost")
                            : "cannot be written: " + std::generic_category().message(reason))
            << "; free some space or write to a file on another disk\n";
  return code == 0 ? kRunFailed : code;
}

}  // namespace

int trireme::run_program(int argc, char** argv) {
  CLI::App app{
      "Trireme trains a neural network on many devices and finds out which way of splitting the work is best."};
  app.require_subcommand(1);
  app.name("trireme");
  use_help_pages(app);
  app.set_version_flag("--version", version_text, "print version, commit, libtorch and backends");
  app.set_help_flag("-h,--help", "print this page");
  const std::vector<ProgramVerb> verbs = add_verbs(app, argc, argv);
  name_values(app);
  group_options_and_verbs(app);

  if (const std::string empty = empty_argument(argc, argv); !empty.empty()) {
    if (reports_for_command())
      std::cerr << "trireme: " << empty << ": no value is given; give one, or leave the flag out\n";
    return kUserError;
  }
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (words.empty()) return run_help(app, {}, std::cout);
  if (requests_pages(words)) return print_pages_or_error(app, words);
  if (const std::optional<int> code = parse_words(app, words)) return *code;
  // If the reader of the output ends (head, a closed terminal), the training continues.
  std::signal(SIGPIPE, SIG_IGN);
  return with_output_written(run_parsed(app, verbs));
}
