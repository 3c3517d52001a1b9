#include "cli/option_values.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cli/plan_command.h"
#include "data/catalogue.h"
#include "plan/strategies.h"
#include "runtime/precision.h"
#include "update/registry.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& others) {
  words.insert(words.end(), others.begin(), others.end());
  return words;
}

Words plans() { return known_strategies() + planned_strategies(); }

/// A family stands for several strategies, so only lists take it.
Words compared_plans() {
  Words words = compared_strategies();
  for (const std::string& plan : plans() + update_policy_names())
    if (std::find(words.begin(), words.end(), plan) == words.end()) words.push_back(plan);
  return words;
}

Words precisions() { return {name_of(Precision::fp32), name_of(Precision::bf16), name_of(Precision::fp64)}; }

/// Options of one name mean the same in every verb. Those that are missing here keep the type's name, TEXT or INT.
struct NamedValue {
  std::string_view option;  ///< "--plan", or an argument's name, "experiment"
  const char* called;       ///< in help texts
  const char* files = "";   ///< as OfferedValues'
  Words (*words)() = nullptr;
};
const NamedValue kNamedValues[] = {
    {"experiment", "FILE", "toml"},
    {"cluster", "FILE", "toml"},
    {"source", "PATH", "*"},
    {"folder", "FOLDER", "/"},
    {"graph", "FILE", "*"},
    {"plan", "PLAN|MODEL", "json", [] { return plans() + model_names(); }},
    {"server", "ADDRESS"},
    {"study", "STUDY", "toml"},
    {"name", "SET", "", [] { return data_names(); }},
    {"--plan", "PLAN", "json", [] { return plans() + update_policy_names(); }},
    {"--strategies", "PLAN,...", "json", compared_plans},
    {"--precision", "PRECISION", "", precisions},
    {"--model", "MODEL", "pt", model_names},
    {"--cost", "COST", "", graph_cost_models},
    {"--set", "KEY=VALUE"},
    {"--device", "DEVICE", "",
     [] {
       return std::vector<std::string>{"cpu", "cuda"};
     }},
    {"--data-dir", "FOLDER", "/"},
    {"--out", "PATH", "*"},
    {"--output", "FILE", "*"},
    {"--json", "FILE", "*"},
    {"--resume", "RUN", "*"},
    {"--start-from", "RUN", "*"},
    {"--phase", "N"},
    {"--cluster", "FILE", "toml"},
    {"--profile", "FILE", "json"},
    {"--times", "FILE", "csv"},
    {"--micro-batches", "N,..."},
    {"--epochs", "EPOCHS", "json"},
    {"--token-file", "FILE", "*"},
    {"--listen", "ADDRESS"},
    {"--hosts", "HOST:N,..."},
    {"--interface", "NAME"},
    {"--ssh", "COMMAND"},
    {"--budget", "TIME"},
    {"--rows", "FILE", "toml"},
    {"--fit", "KEY,..."},
    {"--hold", "NAME"},
    {"--time-limit", "TIME"},
    {"--restart-after", "TIME"},
    {"--gap", "PERCENT"},
    {"--bandwidth", "SPEED"},
    {"--memory", "SIZE"},
};

const NamedValue* named_value(const CLI::Option& option) {
  const auto it = std::find_if(std::begin(kNamedValues), std::end(kNamedValues), [&](const NamedValue& kind) {
    const bool is_flag = kind.option.starts_with("--");
    return is_flag ? option.check_lname(std::string(kind.option.substr(2)))
                   : option.get_positional() && option.get_name(true) == kind.option;
  });
  return it == std::end(kNamedValues) ? nullptr : &*it;
}

/// CLI::IsMember describes itself as "{a,b,c}".
Words choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.rfind('}');
  return begin == type.npos || end < begin ? Words{} : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

}  // namespace

void name_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (const NamedValue* kind = named_value(*option)) option->type_name(kind->called);
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) name_values(*verb);
}

OfferedValues offered_values(const CLI::Option& option) {
  OfferedValues offered{.words = choices_of(option), .files = "", .is_list = option.get_delimiter() != '\0'};
  const NamedValue* kind = named_value(option);
  if (!offered.words.empty() || !kind) return offered;
  if (kind->words) offered.words = kind->words();
  offered.files = kind->files;
  return offered;
}

}  // namespace trireme
