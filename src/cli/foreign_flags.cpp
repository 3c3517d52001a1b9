#include "cli/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/text_parts.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The replacement for a foreign flag in a verb that has `option`. "@" stands for the value.
struct OwnWord {
  const char* option;
  const char* text;
};

struct ForeignFlag {
  std::vector<std::string> names;
  std::vector<OwnWord> instead;  ///< the first whose option the verb, or a verb above it, has
  const char* value = "N";       ///< stands for the value where the user gave none
};

const std::vector<ForeignFlag>& foreign_flags() {
  static const std::vector<ForeignFlag> flags{
      {{"--epochs", "--num-epochs", "--num_epochs", "--max-epochs", "--max_epochs"},
       {{"--set", "--set length=\"@ epochs\""}}},
      {{"--lr", "--learning-rate", "--learning_rate"}, {{"--set", "--set optimizer.learning_rate=@"}}},
      {{"--batch-size", "--batch_size", "--batch", "--global-batch-size"},
       {{"--batches", "--batches @"}, {"--set", "--set batch=@"}}},
      {{"--strategy"}, {{"--strategies", "--strategies @"}, {"--plan", "--plan @"}}, "NAME"},
      {{"--gpus", "--num-gpus", "--num_gpus", "--ngpus"},
       {{"-n", "-n @"},
        {"--spawn", "--spawn @"},
        {"--device", "--device cuda --devices @"},
        {"--devices", "--devices @"}}},
      {{"--workers", "--nproc", "--nproc-per-node", "--nproc_per_node"},
       {{"-n", "-n @"}, {"--spawn", "--spawn @"}, {"--devices", "--devices @"}}},
      {{"--num-workers", "--num_workers"}, {{"--set", "--set data.workers=@"}}},
      {{"--optimizer", "--optim"}, {{"--set", "--set optimizer.kind=@"}}, "NAME"},
      {{"--model", "--arch"}, {{"--set", "--set model.name=@"}}, "NAME"},
      {{"--dataset"}, {{"--set", "--set data.name=@"}}, "NAME"},
      {{"--steps", "--max-steps", "--max_steps"}, {{"--steps", "--steps @"}, {"--set", "--set length=\"@ steps\""}}},
      {{"--output-dir", "--output_dir", "--out-dir", "--out_dir", "--output"},
       {{"--out", "--out @"}, {"--output", "--output @"}},
       "PATH"},
  };
  return flags;
}

/// The value of `--flag value` or `--flag=value`; "" if there is none.
std::string value_of(const std::string& flag, const std::vector<std::string>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].starts_with(flag + "=")) return given[i].substr(flag.size() + 1);
    if (given[i] == flag && i + 1 < given.size() && !given[i + 1].starts_with('-')) return given[i + 1];
  }
  return "";
}

}  // namespace

std::string own_word_for(const CLI::App& verb, const std::string& flag, const std::vector<std::string>& given) {
  const std::string name = flag.substr(0, flag.find('='));
  for (const ForeignFlag& foreign : foreign_flags()) {
    if (std::find(foreign.names.begin(), foreign.names.end(), name) == foreign.names.end()) continue;
    std::string value = value_of(name, given);
    if (value.empty() || value.ends_with(".toml")) value = foreign.value;
    for (const OwnWord& own : foreign.instead)
      for (const CLI::App* app = &verb; app && app->get_parent(); app = app->get_parent()) {
        if (!app->get_option_no_throw(own.option)) continue;
        std::string text = own.text;
        text.replace(text.find('@'), 1, value);
        return fmt::format("write {}{}; ", text, app == &verb ? "" : " before " + verb.get_name());
      }
  }
  return "";
}

void refuse_foreign_key(const std::string& assignment) {
  const size_t cut = assignment.find('=');
  if (cut == assignment.npos) return;
  const std::string flag = "--" + assignment.substr(0, cut);
  for (const ForeignFlag& foreign : foreign_flags()) {
    if (std::find(foreign.names.begin(), foreign.names.end(), flag) == foreign.names.end()) continue;
    for (const OwnWord& own : foreign.instead) {
      std::string text = own.text;
      const std::string same = "--set " + assignment.substr(0, cut);  // model, a key and a table of keys
      if (!text.starts_with("--set ") || text.starts_with(same + "=") || text.starts_with(same + ".")) continue;
      fail_user({"--set", assignment, "there is no such key",
                 "write " + text.replace(text.find('@'), 1, assignment.substr(cut + 1))});
    }
  }
}

void refuse_length_as_epochs(const std::string& text, int64_t batch) {
  std::error_code ignored;
  if (!number_in<double>(text) || std::filesystem::exists(text, ignored)) return;
  fail_user({"--epochs", text, "one number does not say how the epochs to the target depend on the batch",
             fmt::format("write --epochs {}:{} for this batch; how long a run trains is the key length: --set "
                         "length=\"{} epochs\"",
                         batch, text, text)});
}

}  // namespace trireme
