#include "cli/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "comm/rendezvous/token.h"
#include "trireme/program.h"

namespace trireme {
namespace {

struct Variable {
  const char* name;
  const char* help;
};
const Variable kVariables[] = {
    {"TRIREME_DATA", "a folder in which data sets are looked for, after that of --data-dir"},
    {"TRIREME_CACHE",
     "where downloads go and are looked for (default: trireme in XDG_CACHE_HOME, else ~/.cache/trireme)"},
    {"TRIREME_MIRROR", "an address from which data sets are downloaded instead of from their publishers"},
    {"TRIREME_LOG", "the least level of messages on the standard error: trace, debug, info, warn, error or off"},
    {kTokenVariable, "the secret that all processes of a run must have"},
};

/// Text as it is: no character of it is a command.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') result += "\\e";
    else if (c == '-') result += "\\-";  // else it may become a hyphen that cannot be copied
    else if (c == '\'') result += "\\(aq";
    else if (c == '`') result += "\\(ga";
    else if (c == '^') result += "\\(ha";
    else if (c == '~') result += "\\(ti";
    else if (c == '"') result += "\\(dq";
    else if (c == ',' || c == '|') result += std::string(1, c) + "\\:";  // a long list may be broken here
    else result += c;
  }
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

/// The help of a verb begins with a small letter and has no full stop.
std::string sentence(std::string text) {
  if (!text.empty()) text[0] = upper(text.substr(0, 1))[0];
  return text.ends_with('.') ? text : text + ".";
}

std::string head(const std::string& page, const std::string& about) {
  return fmt::format(".TH {} 1 \"\" \"Trireme {}\" \"Trireme\"\n.ad l\n.nh\n.SH NAME\n{} \\- {}\n",
                     escaped(upper(page)), version().number, escaped(page), escaped(about));
}

std::string synopsis(const VerbFacts& verb) {
  std::vector<std::string> words{bold(verb.name)};
  for (const OptionFacts& argument : verb.arguments)
    words.push_back(argument.is_required ? italic(argument.label()) : fmt::format("[{}]", italic(argument.label())));
  for (const OptionFacts& option : verb.options)
    if (option.is_required) words.push_back(bold(option.names.back()) + " " + italic(option.value));
  if (!verb.options.empty()) words.push_back(fmt::format("[{}]", italic("OPTIONS")));
  if (verb.verbs.size() == 1) words.push_back(bold(verb.verbs[0].last_word()) + " ...");
  if (verb.verbs.size() > 1) words.push_back(italic("VERB") + " ...");
  return join(words, " ") + "\n.br\n";
}

std::string entry(const std::string& tag, const std::string& text) { return ".TP\n" + tag + "\n" + text + "\n"; }

std::string option_entries(const VerbFacts& verb) {
  std::string text;
  for (const OptionFacts& argument : verb.arguments) text += entry(italic(argument.label()), escaped(argument.help));
  for (const OptionFacts& option : verb.options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(bold(name));
    std::string tag = join(names, ", ");
    if (!option.value.empty()) tag += " " + italic(option.value);
    text += entry(tag, escaped(full_help(option)));
  }
  return text;
}

/// A verb's footer has sections, "Title:" with lines "  name  what it is", and sentences.
std::string footer_sections(const std::string& footer) {
  std::string text;
  for (const std::string& line : lines_of(footer)) {
    const size_t begin = line.find_first_not_of(' ');
    if (line.ends_with(':')) {
      text += fmt::format(".SS \"{}\"\n", escaped(line.substr(0, line.size() - 1)));
    } else if (begin == 0) {
      text += ".PP\n" + escaped(line) + "\n";
    } else {
      const size_t end = std::min(line.find("  ", begin), line.size());
      const size_t rest = std::min(line.find_first_not_of(' ', end), line.size());
      text += entry(bold(line.substr(begin, end - begin)), escaped(line.substr(rest)));
    }
  }
  return text;
}

std::string example_lines(const VerbFacts& verb) {
  std::string text = verb.examples.empty() ? "" : ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : verb.examples) text += escaped(example) + "\n";
  if (!text.empty()) text += ".fi\n";
  return name_examples(verb.examples) ? text + ".PP\n" + escaped(kWhereExamplesAre) + ".\n" : text;
}

/// Verbs that stand in several places, as train does below launch, have one page.
const VerbFacts* own_page(const VerbFacts& program, const VerbFacts& below) {
  const auto it = std::find_if(program.verbs.begin(), program.verbs.end(),
                               [&](const VerbFacts& verb) { return verb.last_word() == below.last_word(); });
  return it == program.verbs.end() ? nullptr : &*it;
}

std::string reference(const std::string& page) { return bold(page) + "(1)"; }

std::string see_also(const std::vector<std::string>& pages) {
  std::vector<std::string> references;
  for (const std::string& page : pages) references.push_back(reference(page));
  return ".SH \"SEE ALSO\"\n" + join(references, ",\n") + "\n";
}

std::string exit_status() {
  return ".SH \"EXIT STATUS\"\n" + entry("0", "done") +
         entry(std::to_string(kRunFailed), "the run failed or was interrupted, or a check found a fault") +
         entry(std::to_string(kUserError), "the command line, a file or a plan is wrong; nothing was begun");
}

}  // namespace

std::string man_page_name(const VerbFacts& verb) {
  std::string name = verb.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string program_man_page(const VerbFacts& program) {
  std::string text = head(program.name, "train a neural network on many devices and find out which plan is best");
  text += ".SH SYNOPSIS\n" + synopsis(program) + ".SH DESCRIPTION\n" + escaped(program.help) + "\n";
  text += ".SH VERBS\n";
  std::vector<std::string> pages;
  for (const VerbFacts& verb : program.verbs) {
    pages.push_back(man_page_name(verb));
    text += entry(reference(pages.back()), escaped(verb.help));
  }
  text += ".SH OPTIONS\n" + option_entries(program);
  text += example_lines(program) + exit_status() + ".SH ENVIRONMENT\n";
  for (const Variable& variable : kVariables) text += entry(bold(variable.name), escaped(variable.help));
  return text + see_also(pages);
}

std::string verb_man_page(const VerbFacts& program, const VerbFacts& verb) {
  std::string text = head(man_page_name(verb), summary(verb.help)) + ".SH SYNOPSIS\n";
  const bool has_only_help = verb.options.size() <= 1;
  if (verb.verbs.empty() || !has_only_help) text += synopsis(verb);
  else
    for (const VerbFacts& below : verb.verbs) text += synopsis(below);
  text += ".SH DESCRIPTION\n" + escaped(sentence(verb.help)) + "\n";
  text += ".SH OPTIONS\n" + option_entries(verb);
  std::vector<std::string> pages{program.name};
  for (const VerbFacts& below : verb.verbs) {
    text += ".SH \"" + escaped(upper(below.path)) + "\"\n";
    if (const VerbFacts* page = own_page(program, below)) {
      pages.push_back(man_page_name(*page));
      text += fmt::format("Arguments and options are those of {}.\n", reference(pages.back()));
    } else {
      text += escaped(sentence(below.help)) + "\n" + option_entries(below);
    }
  }
  if (!verb.footer.empty()) text += ".SH NAMES\n" + footer_sections(verb.footer);
  return text + example_lines(verb) + exit_status() + see_also(pages);
}

}  // namespace trireme
