#include "cli/plan_command.h"

#include <algorithm>
#include <iostream>
#include <optional>

#include "base/text.h"
#include "cli/launch_hosts.h"
#include "cli/train_process.h"
#include "comm/rendezvous/process_place.h"
#include "plan/strategies.h"

namespace trireme {
namespace {

const std::vector<std::string> kVerbs{"best", "graph", "project", "show"};

bool is_verb(const std::string& word) { return std::find(kVerbs.begin(), kVerbs.end(), word) != kVerbs.end(); }

/// Removes `--flag value` or `--flag=value` from the words and returns the value.
std::optional<std::string> take(std::vector<std::string>& words, const std::string& flag) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word->starts_with(flag + "=")) {
      const std::string value = word->substr(flag.size() + 1);
      words.erase(word);
      return value;
    }
    if (*word != flag || word + 1 == words.end()) continue;
    const std::string value = *(word + 1);
    words.erase(word, word + 2);
    return value;
  }
  return std::nullopt;
}

}  // namespace

PlanVerbs::PlanVerbs(CLI::App& app) {
  plan = app.add_subcommand("plan", "find and show plans; project the time to the target");
  plan->require_subcommand(1);
  add_plan_best(*plan, best);
  add_plan_graph(*plan, graph);
  add_plan_project(*plan, project);
  add_plan_show(*plan, show);
}

int PlanVerbs::run() {
  if (plan->got_subcommand("best")) return run_plan_best(best);
  if (plan->got_subcommand("graph")) return run_plan_graph(graph);
  return plan->got_subcommand("project") ? run_plan_project(project) : run_plan_show(show);
}

std::vector<std::string> with_plan_verb(std::vector<std::string> words) {
  const bool is_plan = words.size() > 1 && words[0] == "plan" && words[1] != "--help" && words[1] != "-h";
  // a verb with a typing error is the parser's to report
  if (is_plan && !words[1].starts_with('-') && !closest_match(words[1], kVerbs).empty()) return words;
  if (!is_plan || std::any_of(words.begin() + 1, words.end(), is_verb)) return words;
  std::vector<std::string> rest(words.begin() + 1, words.end()), now{"plan"};
  if (const auto graph = take(rest, "--graph")) {
    now.insert(now.end(), {"graph", *graph});
    if (const auto limit = take(rest, "--limit")) rest.insert(rest.end(), {"--time-limit", *limit});
  } else if (const auto objective = take(rest, "--objective")) {
    now.push_back(*objective == "accuracy" ? "project" : "best");
    if (*objective != "accuracy") rest.insert(rest.end(), {"--objective", *objective});
  } else {
    now.insert(now.end(), {"show", take(rest, "--plan").value_or(usual_strategy())});
    rest.insert(rest.end(), {"--json", "-"});
  }
  now.insert(now.end(), rest.begin(), rest.end());
  if (reports_for_command())
    std::cerr << "trireme: trireme plan has verbs now; write: trireme " << shell_line(now) << "\n";
  return now;
}

}  // namespace trireme
