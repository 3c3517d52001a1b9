#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "study/study.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStart = R"(title = "Small"
[[runs]]
name = "a"
experiment = "e.toml"
set = ["batch=8"]
quick = ["length=1 steps"]
full = ["length=9 epochs"]
)";
constexpr const char* kPart = "[[parts]]\ntitle = \"Times\"\ntable = [\"time\"]\n";

class StudyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "trireme_study_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "e.toml") << "name = \"e\"\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  Study read(const std::string& text) {
    std::ofstream(folder_ / "small.study.toml") << text;
    return read_study(folder_ / "small.study.toml");
  }
  void expect_refused(const std::string& text, const std::vector<std::string>& says) {
    expect_error(Blame::user, says, [&] { read(text); });
  }

  fs::path folder_;
};

TEST_F(StudyFile, HasRunsAndParts) {
  const Study study =
      read(std::string(kStart) + "tune = { key = \"optimizer.learning_rate\", values = [\"0.1\", \"0.2\"] }\n" + kPart +
           "[[parts.charts]]\ny = \"speedup\"\n" +
           "[[parts.published]]\nstrategy = \"data\"\nquantity = \"time\"\nvalue = 3\n");
  EXPECT_EQ(study.name, "small");
  ASSERT_EQ(study.runs.size(), 1u);
  EXPECT_EQ(study.runs[0].experiment, folder_ / "e.toml");
  EXPECT_EQ(study.runs[0].title, "a");
  ASSERT_TRUE(study.runs[0].tuning);
  EXPECT_EQ(study.runs[0].tuning->values, (std::vector<std::string>{"0.1", "0.2"}));
  ASSERT_EQ(study.parts.size(), 1u);
  EXPECT_EQ(study.parts[0].charts.at(0).x, "devices");
  EXPECT_EQ(study.parts[0].published.at(0).value, 3);
}

TEST_F(StudyFile, TriedValuesAreWrittenAsInAnAssignment) {
  const Study study = read(std::string(kStart) + "tune = { key = \"x\", values = [0.01, 2, true, \"1e9\"] }\n" + kPart);
  EXPECT_EQ(study.runs.at(0).tuning->values, (std::vector<std::string>{"0.01", "2", "true", "1e9"}));
}

TEST_F(StudyFile, SettingsDependOnTheSize) {
  const StudyRun run = read(std::string(kStart) + kPart).runs.front();
  using List = std::vector<std::string>;
  EXPECT_EQ(run.settings(StudySize::usual), (List{"batch=8"}));
  EXPECT_EQ(run.settings(StudySize::quick), (List{"batch=8", "length=1 steps"}));
  EXPECT_EQ(run.settings(StudySize::full), (List{"batch=8", "length=9 epochs"}));
  EXPECT_TRUE(run.seeds_of(StudySize::usual).empty());
  const StudyRun seeded = read(std::string(kStart) + "seeds = [5, 2]\n" + kPart).runs.front();
  EXPECT_EQ(seeded.seeds_of(StudySize::usual), (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(seeded.seeds_of(StudySize::quick), (std::vector<int64_t>{5}));
}

TEST_F(StudyFile, RunsMayBeOfSomeSizesOnly) {
  const std::string second = "[[runs]]\nname = \"b\"\nexperiment = \"e.toml\"\nsizes = [\"usual\", \"full\"]\n";
  const std::string of_b = "[[parts]]\ntitle = \"Of b\"\nruns = [\"b\"]\ntable = [\"time\"]\n";
  const auto names_in = [&](StudySize size) {
    Study study = read(kStart + second + kPart + of_b);
    keep_size(study, size, "small.study.toml");
    std::string names;
    for (const StudyRun& run : study.runs) names += run.name;
    for (const StudyPart& part : study.parts) names += "|" + part.title;
    return names;
  };
  EXPECT_EQ(names_in(StudySize::quick), "a|Times");
  EXPECT_EQ(names_in(StudySize::full), "ab|Times|Of b");
  expect_refused(kStart + second + "[[runs]]\nname = \"c\"\nexperiment = \"e.toml\"\nbase = \"b\"\n" + kPart,
                 {"\"b\" is not trained in the quick size", "give both the same sizes"});
  expect_refused(std::string(kStart) + "sizes = [\"tiny\"]\n" + kPart,
                 {"\"tiny\" is not a size", "quick, usual, full"});
  expect_refused(std::string(kStart) + "sizes = []\n" + kPart, {"is an empty list"});
  Study full = read(std::string(kStart) + "sizes = [\"full\"]\n" + kPart);
  expect_error(Blame::user, {"s.toml", "has no run of the quick size"},
               [&] { keep_size(full, StudySize::quick, "s.toml"); });
}

TEST_F(StudyFile, PartsNameMachinesOfTheTableOfPrices) {
  std::ofstream(folder_ / "prices.toml") << R"(currency = "USD"
date = "2023-06"
[[instance]]
name = "small"
provider = "P"
per_hour = 3.6
source = "a list"
)";
  const std::string table = "price_table = \"prices.toml\"\n" + std::string(kStart);
  const auto part = [](const std::string& price, const std::string& quantity) {
    return "[[parts]]\ntitle = \"Money\"\nprices = [\"" + price + "\"]\ntable = [\"" + quantity + "\"]\n";
  };
  const Study study = read(table + part("small", "price of an epoch"));
  ASSERT_EQ(study.parts.at(0).prices.size(), 1u);
  EXPECT_EQ(study.parts.at(0).prices.front().per_hour, 3.6);
  expect_refused(table + part("large", "price of an epoch"), {"\"large\" is not in the table of prices"});
  expect_refused(table + part("small", "time"), {"the table shows no price"});
  expect_refused(kStart + part("small", "price of an epoch"), {"no table of prices", "price_table"});
}

TEST_F(StudyFile, RefusesWhatCannotBe) {
  const std::string start = kStart, part = kPart;
  expect_refused(start, {"has no parts", "[[parts]]"});
  expect_refused("title = \"x\"\n" + part, {"has no runs"});
  expect_refused(start + "experimnet = \"e.toml\"\n" + part, {"experimnet", "did you mean"});
  expect_refused(start + "[[runs]]\nname = \"a\"\nexperiment = \"e.toml\"\n" + part, {"another run has it"});
  expect_refused(start + "[[runs]]\nname = \"../b\"\nexperiment = \"e.toml\"\n" + part, {"names a folder"});
  expect_refused(start + "[[runs]]\nname = \"b\"\nexperiment = \"none.toml\"\n" + part,
                 {"there is no file", "none.toml"});
  expect_refused(start + "tune = { key = \"seed\", values = [\"1\"] }\n" + part, {"at least two"});
  expect_refused(start + "tune = { key = \"seed\", values = 1 }\n" + part, {"at least two", "values = [0.01, 0.1]"});
  expect_refused(start + "tune = { key = \"seed\" }\n" + part, {"tune.values: is missing"});
  expect_refused(start + "tune = { key = \"seed\", vales = [1, 2] }\n" + part, {"did you mean \"values\"?"});
  expect_refused(start + "tune = { key = \"seed\", values = [[1], 2] }\n" + part, {"numbers, strings"});
  expect_refused(start + "[[parts]]\ntitle = \"x\"\ntable = [\"tiem\"]\n",
                 {"\"tiem\" is not a quantity", "did you mean \"time\"?"});
  expect_refused(start + "seeds = [1, 2, 1]\n" + part, {"seeds", "different whole numbers"});
  expect_refused(start + "base = \"b\"\n" + part, {"base", "\"b\" is not an earlier run", "leave the key out"});
  expect_refused(start + part + "together = true\nadvice = true\n", {"advice", "of one run each"});
  expect_refused(start + part + "together = true\nblocks = true\n", {"blocks", "of one run each"});
  expect_refused(start + part + "sum = \"time\"\n", {"sum", "over runs", "together = true"});
  expect_refused(start + part + "together = true\nsum = \"tiem\"\n", {"\"tiem\" is not a quantity"});
  expect_refused(start + "phase = 0\n" + part, {"phase", "at least 1"});
  expect_refused(start + "[[parts]]\ntitle = \"x\"\n", {"nothing to show"});
  expect_refused(start + part + "runs = [\"b\"]\n", {"\"b\" is not a run", "the runs are: a"});
  expect_refused(start + part + "[[parts.charts]]\ny = \"speed\"\n", {"\"speed\" is not a quantity"});
  expect_refused(start + part + "[[parts.published]]\nstrategy = \"data\"\nquantity = \"loss\"\nvalue = 3\n",
                 {"lacks \"loss\""});
}

/// Every study that comes with the program can be read.
TEST(Studies, AreReadable) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(TRIREME_STUDIES)) {
    if (!entry.path().string().ends_with(kStudyFileEnding)) continue;
    EXPECT_FALSE(read_study(entry.path()).title.empty()) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace trireme
