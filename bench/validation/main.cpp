// Compares predictions with published measurements: writes docs/validation.md, or checks it.
//
// validation [--profiles FOLDER] [--out FILE] [--only NAME] [--check]: prints the page, or writes it to FILE.
// --profiles: the folder with pipedream/*.txt (default: TRIREME_PROFILES; without either PipeDream's table is left
// out).
// --only: only tables whose names begin with NAME.
// --check: prints a line for each row whose error exceeds its limit; exits with status 1 if there is one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

#include "base/json_file.h"
#include "base/text.h"
#include "trireme/error.h"
#include "validation/tables.h"

namespace {

using namespace trireme;
using namespace trireme::validation;

struct Request {
  std::string profiles, out, only;
  bool check = false;
};

std::vector<Table> make_tables(const Request& request) {
  const std::vector<std::pair<std::string, std::function<Table()>>> makers{
      {"gpipe-weights", gpipe_weights},
      {"gpipe-tpu", gpipe_tpu},
      {"gpipe-p100", gpipe_p100},
      {"amoebanet-weights", amoebanet_weights},
      {"unet-weights", unet_weights},
      {"unet-speed", unet_speed},
      {"resnet101-speed", resnet101_speed},
      {"small-images", small_images},
      {"megatron-parameters", megatron_parameters},
      {"megatron-speed", megatron_speed},
      {"zero3", zero3_speed},
      {"vtrain-multi", vtrain_multi_node},
      {"vtrain-single", vtrain_single_node},
      {"aleph-alpha-speed", aleph_alpha_speed},
      {"aleph-alpha-memory", aleph_alpha_memory},
      {"dgx", dgx_speed},
      {"korthikanti-speed", korthikanti_speed},
      {"korthikanti-memory", korthikanti_memory},
      {"oneflow", oneflow_speed},
      {"internevo", internevo_speed},
      {"horovod", horovod_scaling},
      {"zero-bubble", zero_bubble_bubbles},
      {"zero-bubble-fixed", zero_bubble_fixed},
      {"zero-bubble-larger", zero_bubble_larger},
      {"zero-bubble-same-memory", zero_bubble_same_memory},
      {"zero-bubble-speed", zero_bubble_speed},
      {"pipedream", [&] { return pipedream_speedups(request.profiles); }}};
  std::vector<Table> tables;
  for (const auto& [name, make] : makers) {
    if (!name.starts_with(request.only) || (name == "pipedream" && request.profiles.empty())) continue;
    tables.push_back(make());
    fmt::print(stderr, "{}: {}\n", name, tables.back().holds() ? "holds" : "does not hold");
  }
  return tables;
}

int run(const Request& request) {
  const std::vector<Table> tables = make_tables(request);
  if (!request.out.empty()) write_file_atomically(request.out, page(tables));
  else if (!request.check) fmt::print("{}", page(tables));
  if (!request.check) return 0;
  const std::vector<std::string> lines = broken(tables);
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", line);
  return lines.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Published measurements beside what the simulator predicts."};
  const char* set = std::getenv("TRIREME_PROFILES");
  Request request{.profiles = set ? set : "", .out = {}, .only = {}};
  app.add_option("--profiles", request.profiles, "folder that holds pipedream/*.txt; default: TRIREME_PROFILES");
  app.add_option("--out", request.out, "write the page to this file");
  app.add_option("--only", request.only,
                 "only tables whose names begin so: gpipe, amoebanet, unet, resnet101, small, megatron, horovod, "
                 "zero-bubble, pipedream");
  app.add_flag("--check", request.check, "exit status 1 where a row exceeds its limit");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(request);
  } catch (const std::exception& error) {
    fmt::print(stderr, "validation: {}\n", first_line(error));
    return 2;
  }
}
