#include "cli/completion.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string_view>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {

namespace assets {  // src/cli/completion/*.in
extern const std::string_view bash_completion, zsh_completion, fish_completion;
}

namespace {

// Each script has the same three tables, as functions: the verbs below a verb, its options, and the completions of a
// value. The key of a value is the verb's path and the option, "train --plan", or the argument's number, "plan show 1".

std::string filled(std::string_view script, const std::map<std::string, std::string>& parts) {
  std::string text(script);
  for (const auto& [name, part] : parts) {
    const size_t at = text.find(name);
    check_internal(at != text.npos, "the script has a place for each part");
    text.replace(at, name.size(), part);
  }
  return text;
}

/// Single quotes for bash and zsh.
std::string single_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Single quotes for fish, where a backslash escapes.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "'";
}

void for_each_verb(const VerbFacts& verb, const std::function<void(const VerbFacts&)>& visit) {
  visit(verb);
  for (const VerbFacts& below : verb.verbs) for_each_verb(below, visit);
}

std::vector<std::string> names_below(const VerbFacts& verb) {
  std::vector<std::string> names;
  for (const VerbFacts& below : verb.verbs) names.push_back(below.last_word());
  return names;
}

/// Names of the options with a value, or of those without one.
std::vector<std::string> option_names(const VerbFacts& verb, bool with_value) {
  std::vector<std::string> names;
  for (const OptionFacts& option : verb.options)
    if (option.value.empty() != with_value) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

bool offers_nothing(const OfferedValues& offered) { return offered.words.empty() && offered.files.empty(); }

/// The keys of each set of values: options of several verbs share one.
std::map<OfferedValues, std::vector<std::string>> keys_by_values(const VerbFacts& program) {
  std::map<OfferedValues, std::vector<std::string>> keys;
  for_each_verb(program, [&](const VerbFacts& verb) {
    for (const OptionFacts& option : verb.options)
      for (const std::string& name : option.names)
        if (!offers_nothing(option.offered)) keys[option.offered].push_back(verb.path + " " + name);
    for (size_t i = 0; i < verb.arguments.size(); ++i)
      if (!offers_nothing(verb.arguments[i].offered))
        keys[verb.arguments[i].offered].push_back(fmt::format("{} {}", verb.path, i + 1));
  });
  return keys;
}

/// The branches of a case of bash or zsh; `action` is what a set of values does.
std::string value_cases(const VerbFacts& program, const std::function<std::string(const OfferedValues&)>& action) {
  std::string text;
  for (const auto& [offered, keys] : keys_by_values(program)) {
    std::vector<std::string> patterns;
    for (const std::string& key : keys) patterns.push_back(single_quoted(key));
    text += fmt::format("    {})\n      {}\n      ;;\n", join(patterns, " | "), action(offered));
  }
  return text;
}

std::string bash_script(const VerbFacts& program) {
  std::string verbs;
  for_each_verb(program, [&](const VerbFacts& verb) {
    verbs +=
        fmt::format("    {})\n      verbs={}\n      flags={}\n      valued={}\n      ;;\n", single_quoted(verb.path),
                    single_quoted(join(names_below(verb), " ")), single_quoted(join(option_names(verb, false), " ")),
                    single_quoted(join(option_names(verb, true), " ")));
  });
  verbs += "    *) verbs='' flags='' valued='' ;;\n";
  const auto action = [](const OfferedValues& offered) {
    return fmt::format("words={} files={} list={}", single_quoted(join(offered.words, " ")),
                       single_quoted(offered.files), offered.is_list ? "1" : "''");
  };
  return filled(assets::bash_completion, {{"@VERBS@", verbs}, {"@VALUES@", value_cases(program, action)}});
}

/// Text in a specification of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_argument(const VerbFacts& verb, size_t index) {
  const OptionFacts& argument = verb.arguments[index];
  return fmt::format(" \\\n        {}", single_quoted(fmt::format("{}:{}{}:{{_trireme_values \"{} {}\"}}", index + 1,
                                                                  argument.is_required ? "" : ":",
                                                                  zsh_text(argument.value), verb.path, index + 1)));
}

std::string zsh_option(const VerbFacts& verb, const OptionFacts& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const std::string others = option.is_repeatable ? "*" : fmt::format("({})", join(option.names, " "));
    // "=": the value may also follow the option's name and this sign
    const std::string sign = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    std::string specification = fmt::format("{}{}{}[{}]", others, name, sign, zsh_text(summary(option.help)));
    if (!option.value.empty())
      specification += fmt::format(":{}:{{_trireme_values \"{} {}\"}}", zsh_text(option.value), verb.path, name);
    text += fmt::format(" \\\n        {}", single_quoted(specification));
  }
  return text;
}

std::string zsh_script(const VerbFacts& program) {
  std::string verbs;
  for_each_verb(program, [&](const VerbFacts& verb) {
    verbs += fmt::format("    {})\n", single_quoted(verb.path));
    if (!verb.verbs.empty()) {
      verbs += "      verbs=(\n";
      for (const VerbFacts& below : verb.verbs)
        verbs += fmt::format("        {}\n", single_quoted(below.last_word() + ":" + zsh_text(summary(below.help))));
      verbs += "      )\n";
    }
    verbs += "      _arguments -C";
    for (const OptionFacts& option : verb.options) verbs += zsh_option(verb, option);
    for (size_t i = 0; i < verb.arguments.size(); ++i) verbs += zsh_argument(verb, i);
    if (!verb.verbs.empty()) verbs += " \\\n        '1: :->verb' '*:: :->rest'";
    verbs += " && result=0\n      ;;\n";
  });
  const auto action = [](const OfferedValues& offered) {
    std::string text = fmt::format("_trireme_offer {} {}", single_quoted(offered.files), offered.is_list ? "1" : "''");
    for (const std::string& word : offered.words) text += " " + single_quoted(word);
    return text;
  };
  return filled(assets::zsh_completion, {{"@VERBS@", verbs}, {"@VALUES@", value_cases(program, action)}});
}

/// fish's options of `complete` for a value.
std::string fish_values(const OfferedValues& offered) {
  if (offered.files == "*" && offered.words.empty()) return " -r -F";
  std::string command;
  if (!offered.words.empty()) {
    for (const std::string& word : offered.words) command += " " + word;
    command = offered.is_list ? "__fish_append ," + command : "printf %s\\n" + command;
  }
  const std::string files = offered.files == "/"    ? "__fish_complete_directories (commandline -ct)"
                            : offered.files == "*"  ? "__fish_complete_path (commandline -ct)"
                            : offered.files.empty() ? ""
                                                    : "__fish_complete_suffix ." + offered.files;
  if (!command.empty() && !files.empty()) command += "; ";
  return " -x" + (offers_nothing(offered) ? "" : " -a " + fish_quoted("(" + command + files + ")"));
}

std::string fish_script(const VerbFacts& program) {
  std::string verbs, valued, completions;
  for_each_verb(program, [&](const VerbFacts& verb) {
    const std::string begin = fmt::format("        case {}\n            printf '%s\\n' ", fish_quoted(verb.path));
    if (!verb.verbs.empty()) verbs += begin + join(names_below(verb), " ") + "\n";
    if (const auto names = option_names(verb, true); !names.empty()) valued += begin + join(names, " ") + "\n";

    const auto at = [&](const std::string& argument) {
      return fmt::format("complete -c trireme -n {}",
                         fish_quoted(fmt::format("__trireme_at '{}'{}", verb.path, argument)));
    };
    for (const VerbFacts& below : verb.verbs)
      completions += fmt::format("{} -a {} -d {}\n", at(""), below.last_word(), fish_quoted(summary(below.help)));
    for (const OptionFacts& option : verb.options) {
      completions += at("");
      for (const std::string& name : option.names)
        completions += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) completions += fish_values(option.offered);
      completions += fmt::format(" -d {}\n", fish_quoted(summary(option.help)));
    }
    for (size_t i = 0; i < verb.arguments.size(); ++i) {
      const OptionFacts& argument = verb.arguments[i];
      if (!offers_nothing(argument.offered))
        completions += fmt::format("{}{}\n", at(fmt::format(" {}", i + 1)), fish_values(argument.offered));
    }
  });
  return filled(assets::fish_completion, {{"@VERBS@", verbs}, {"@VALUED@", valued}, {"@COMPLETIONS@", completions}});
}

struct Shell {
  const char* name;
  std::string (*script)(const VerbFacts& program);
};
const Shell kShells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

}  // namespace

const std::vector<std::string>& completed_shells() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Shell& shell : kShells) all.emplace_back(shell.name);
    return all;
  }();
  return names;
}

std::string completion_script(const std::string& shell, const VerbFacts& program) {
  for (const Shell& known : kShells)
    if (shell == known.name) return known.script(program);
  const std::string near = closest_match(shell, completed_shells());
  fail_user({"--print-completion", "\"" + shell + "\"", "is not a shell with completion here",
             near.empty() ? "known are " + join(completed_shells()) : "did you mean " + near + "?"});
}

}  // namespace trireme
