#include <fmt/format.h>

#include "data/catalogue.h"
#include "data/text/text_sets.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> keys() {
  std::vector<std::string> all = sentence_keys();
  all.emplace_back("languages");
  return all;
}

void read_keys(const ConfigTable& table, const fs::path& folder, DataSpec& spec) {
  read_sentence_keys(table, folder, spec);
  if (!table.has("languages")) return;
  const std::vector<std::string> languages = table.get_strings("languages", {});
  if (languages.size() != 2)
    table.fail("languages", fmt::format("{} languages", languages.size()),
               "name the source and the target: [\"de\", \"en\"]");
  spec.text.source = languages[0];
  spec.text.target = languages[1];
}

TaskData open_multi30k(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const auto files = [&](const char* split) {
    return std::vector<fs::path>{folder / fmt::format("{}.{}.gz", split, spec.text.source),
                                 folder / fmt::format("{}.{}.gz", split, spec.text.target)};
  };
  return open_pairs(spec, files("train"), files("test_2016_flickr"),
                    fmt::format("{}, {} to {}", set.found_in(folder), spec.text.source, spec.text.target));
}

}  // namespace

// D. Elliott et al., "Multi30K: multilingual English-German image descriptions", 2016.
KnownSet multi30k() {
  return {.name = "multi30k",
          .title = "Multi30k",
          .description = "captions of pictures in English and German, 29,000 + 1,000 pairs",
          .task = LearningTask::translation,
          .folders = {"multi30k"},
          .sources = published_at(
              "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
              {{"train.en.gz", "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f", 568929},
               {"train.de.gz", "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6", 637044},
               {"val.en.gz", "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28", 21650},
               {"val.de.gz", "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a", 24681},
               {"test_2016_flickr.en.gz", "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9", 21077},
               {"test_2016_flickr.de.gz", "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8", 22890}}),
          .keys = keys(),
          .read = read_keys,
          .open = open_multi30k,
          .shape = [](const DataSpec& spec) { return pairs_shape(spec, 29'000, 1'000); }};
}

}  // namespace trireme::sets
