#include "trireme/config.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"

namespace trireme {
namespace {

constexpr const char* kText = R"(name = "mnist"
batch = 128
rate = 0.1
shuffle = true
device_memory = "2 GiB"
length = "10 epochs"
devices = [1, 2]
strategies = ["data", "tensor"]

[model]
name = "lenet"
width = 2

[[layer]]
kind = "conv"
[[layer]]
kind = "linear"
)";

ConfigTable sample() { return ConfigTable::from_string(kText, "mnist.toml"); }

TEST(Config, ReadsEveryType) {
  ConfigTable c = sample();
  EXPECT_EQ(c.require_string("name"), "mnist");
  EXPECT_EQ(c.require_int("batch"), 128);
  EXPECT_EQ(c.require_double("rate"), 0.1);
  EXPECT_EQ(c.require_double("batch"), 128.0);
  EXPECT_TRUE(c.require_bool("shuffle"));
  EXPECT_EQ(c.get_bytes("device_memory", 0), int64_t{2} << 30);
  EXPECT_EQ(c.require_length("length").count, 10);
  EXPECT_EQ(c.get_ints("devices", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(c.get_doubles("devices", {}), (std::vector<double>{1, 2}));
  EXPECT_EQ(c.get_strings("strategies", {}), (std::vector<std::string>{"data", "tensor"}));
  EXPECT_EQ(c.table("model").require_string("name"), "lenet");
  EXPECT_EQ(c.require_int("model.width"), 2);
  EXPECT_EQ(c.table("model").keys(), (std::vector<std::string>{"name", "width"}));
  ASSERT_EQ(c.tables("layer").size(), 2u);
  EXPECT_EQ(c.tables("layer")[1].require_string("kind"), "linear");
  for (const ConfigTable& layer : c.tables("layer")) layer.get_string("kind", "");
  c.finish();
}

TEST(Config, FallsBackWhereAbsent) {
  ConfigTable c = sample();
  EXPECT_EQ(c.get_string("x", "d"), "d");
  EXPECT_EQ(c.get_int("x", 4), 4);
  EXPECT_EQ(c.get_double("x.y.z", 0.5), 0.5);
  EXPECT_TRUE(c.get_bool("x", true));
  EXPECT_EQ(c.get_seconds("x", 3), 3);
  EXPECT_EQ(c.get_bandwidth("x", 3), 3);
  EXPECT_EQ(c.get_strings("x", {"a"}), (std::vector<std::string>{"a"}));
  EXPECT_FALSE(c.has("x"));
  EXPECT_EQ(c.table("absent").get_int("y", 1), 1);
  EXPECT_TRUE(c.tables("absent").empty());
  expect_error(Blame::user, {"mnist.toml", "absent.y", "missing", "; add it to the file"},
               [&] { c.table("absent").require_int("y"); });
  c.allow_set();
  expect_error(Blame::user, {"mnist.toml", "absent.y", "missing", "--set absent.y="},
               [&] { c.table("absent").require_int("y"); });
}

TEST(Config, AMissingKeyIsSoughtAmongThoseThatNothingHasRead) {
  const std::string text = "lenght = 3\nname = \"x\"\n[modle]\nnmae = \"y\"\n[[layer]]\nkidn = \"conv\"\nwidth = 1\n";
  ConfigTable c = ConfigTable::from_string(text, "x.toml");
  c.allow_set();
  expect_error(Blame::user, {"\"length\" is missing", "x.toml:1: lenght: did you mean \"length\"?"},
               [&] { c.require_int("length"); });
  expect_error(Blame::user, {"\"model.name\" is missing", "x.toml:3: modle: did you mean \"model\"?"},
               [&] { c.table("model").require_string("name"); });
  expect_error(Blame::user, {"\"layer[0].kind\" is missing", "x.toml:6: layer[0].kidn: did you mean \"kind\"?"},
               [&] { c.tables("layer")[0].require_string("kind"); });
  expect_error(Blame::user, {"modle.name", "says nothing", "x.toml:4: modle.nmae: did you mean \"name\"?"},
               [&] { c.table("modle").fail("name", "says nothing", "say it"); });
  expect_error(Blame::user, {"layer[0].y", "; add it to the file"}, [&] { c.tables("layer")[0].require_int("y"); });
  c.override_with("data.nam=\"z\"");
  expect_error(Blame::user, {"--set data.nam=\"z\": did you mean \"name\"?"}, [&] { c.require_string("data.name"); });
  c.get_string("name", "");
  expect_error(Blame::user, {"\"names\" is missing", "--set names="}, [&] { c.require_string("names"); });
}

TEST(Config, WrongTypesNameFileLineKeyValueAndReason) {
  ConfigTable c = sample();
  expect_error(Blame::user, {"mnist.toml:1: name", "mnist", "whole number"}, [&] { c.require_int("name"); });
  expect_error(Blame::user, {"mnist.toml:3: rate", "0.1", "whole number"}, [&] { c.get_int("rate", 1); });
  const ConfigTable reals = ConfigTable::from_string("patience = 1e30\nless = -1e30\nbatch = 3e2\n", "x.toml");
  expect_error(
      Blame::user,
      {"x.toml:1: patience", "it must be a whole number from 1 to 9223372036854775807; choose a smaller value"},
      [&] { reals.get_int("patience", 1, 1); });
  expect_error(Blame::user, {"x.toml:2: less", "from 0 to 9223372036854775807; choose a larger value"},
               [&] { reals.require_int("less", 0); });
  expect_error(Blame::user, {"x.toml:3: batch", "it must be a whole number; write 300"},
               [&] { reals.require_int("batch", 1); });
  expect_error(Blame::user, {"mnist.toml:2: batch", "128", "a string"}, [&] { c.get_string("batch", ""); });
  expect_error(Blame::user, {"mnist.toml:12: model.width", "true or false"},
               [&] { c.table("model").get_bool("width", false); });
  expect_error(Blame::user, {"mnist.toml:8: strategies", "list of whole numbers"},
               [&] { c.get_ints("strategies", {}); });
  expect_error(Blame::user, {"mnist.toml:2: batch", "a list of strings", "in quotes, in brackets"},
               [&] { c.get_strings("batch", {}); });
  EXPECT_EQ(c.get_ints("batch", {}), std::vector<int64_t>{c.get_int("batch", 0)});  // one value counts as a list
  expect_error(Blame::user, {"mnist.toml:2: batch", "a table"}, [&] { c.table("batch"); });
  expect_error(Blame::user, {"mnist.toml:10: model", "[[name]]"}, [&] { c.tables("model"); });
}

TEST(Config, WholeNumbersOfAnySizeAreNumbers) {
  const ConfigTable c = ConfigTable::from_string("one = 9223372036854775807\nsome = [1, 9007199254740993, -0.5]");
  EXPECT_EQ(c.get_double("one", 0), 9223372036854775807.0);
  EXPECT_EQ(c.get_doubles("one", {}), (std::vector<double>{9223372036854775807.0}));
  EXPECT_EQ(c.get_doubles("some", {}), (std::vector<double>{1, 9007199254740992.0, -0.5}));
}

TEST(Config, WrongUnitsRangesAndChoices) {
  ConfigTable c = sample();
  expect_error(Blame::user, {"mnist.toml:5: device_memory", "\"2 GiB\" is not a time", "ms"},
               [&] { c.get_seconds("device_memory", 0); });
  expect_error(Blame::user,
               {"mnist.toml:2: batch: \"128\" is not an amount of memory: the unit is missing; write", "\"128 GiB\""},
               [&] { c.get_bytes("batch", 0); });
  expect_error(Blame::user, {"mnist.toml:2: batch", "the unit is missing; write \"128 steps\" or \"128 epochs\""},
               [&] { c.require_length("batch"); });
  expect_error(Blame::user, {"mnist.toml:4: shuffle", "a string like"}, [&] { c.get_bytes("shuffle", 0); });
  expect_error(Blame::user, {"mnist.toml:2: batch", "at least 200"}, [&] { c.require_int("batch", 200); });
  expect_error(Blame::user, {"mnist.toml:3: rate", "at least 1"}, [&] { c.get_double("rate", 1, 1); });
  expect_error(Blame::user,
               {"mnist.toml:11: model.name", "lenet", "one of lenet5, resnet18", "did you mean \"lenet5\"?"}, [&] {
                 c.table("model").get_choice("name", "", {"lenet5", "resnet18"});
               });
  expect_error(Blame::user, {"mnist.toml:2: batch", "128", "too odd", "take another"},
               [&] { c.fail("batch", "too odd", "take another"); });
}

TEST(Config, UnknownKeysAreReportedWithTheNearest) {
  ConfigTable c = ConfigTable::from_string("bacth = 3\n[model]\nnmae = 1\n[odd]\nzzz = 1\n", "x.toml");
  c.get_int("batch", 1);
  c.table("model").get_string("name", "");
  expect_error(Blame::user, {"x.toml:1: bacth", "unknown key", "model.nmae", "odd.zzz", "did you mean \"batch\"?"},
               [&] { c.finish(); });
}

TEST(Config, AMisspeltKeyInAnotherTableIsFound) {
  ConfigTable c = ConfigTable::from_string("batch = 3\n[price]\nper_hour = 1\noverlps = false\n", "x.toml");
  c.get_int("batch", 1);
  c.get_bool("overlaps", true);
  c.table("price").get_double("per_hour", 0);
  expect_error(Blame::user,
               {"x.toml:4: price.overlps", "did you mean \"overlaps\"?", "Lines below [price] are keys of that table"},
               [&] { c.finish(); });
}

TEST(Config, ElementsOfAListCannotBeSet) {
  const ConfigTable c = ConfigTable::from_string("[[node]]\na = 1\n", "x.toml");
  try {
    c.tables("node").front().require_string("b");
    FAIL() << "b is not there";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("--set"), std::string::npos) << error.what();
  }
}

TEST(Config, WhereNamesTheFlagOrTheLineIfThereIsOne) {
  ConfigTable c = ConfigTable::from_string("adapt = true\n[price]\nper_hour = 1\n", "x.toml");
  c.override_with("cluster.link.bandwidth=1 Gbit/s");
  EXPECT_EQ(c.where("adapt"), "x.toml:1: adapt");
  EXPECT_EQ(c.where("cluster.link"), "--set cluster.link.bandwidth=1 Gbit/s") << "the flag made the table";
  EXPECT_EQ(c.where("elastic"), "x.toml: elastic") << "not given";
  const ConfigTable words = ConfigTable::from_string("evry = 3\n", "strategy \"x\"", /*has_lines=*/false);
  expect_error(Blame::user, {"strategy \"x\": evry: unknown key"}, [&] { words.finish(); });
  expect_error(Blame::user, {"x.toml: every: is missing; say it"}, [&] { c.fail("every", "is missing", "say it"); });
}

TEST(Config, AKeyIsNeverTakenForItsTable) {
  ConfigTable c = ConfigTable::from_string("", "x.toml");
  c.override_with("optimizer.lr=0.1");
  c.table("optimizer").get_double("learning_rate", 0);
  c.table("optimizer").get_double("ema", 0);
  expect_error(Blame::user, {"--set optimizer.lr=0.1", "did you mean \"optimizer.learning_rate\"?"},
               [&] { c.finish(); });
  ConfigTable d = ConfigTable::from_string("[optimizer]\nxyz = 1\n", "x.toml");
  d.table("optimizer").get_double("ema", 0);
  expect_error(Blame::user, {"optimizer.xyz", "remove it"}, [&] { d.finish(); });
}

TEST(Config, NumbersAreShownInFewDigits) {
  const ConfigTable c = ConfigTable::from_string("rate = -0.1\nspeeds = [0.7, 1.0]\nnone = nan\n", "x.toml");
  expect_error(Blame::user, {": -0.1: it must"}, [&] { c.get_double("rate", 0, 0); });
  expect_error(Blame::user, {"[ 0.7, 1.0 ]"}, [&] { c.get_string("speeds", ""); });
  expect_error(Blame::user, {"nan", "it must be a number"}, [&] { c.get_double("none", 0, 0); });
}

TEST(Config, UnknownKeyInTheWrongTableAndEmptyTables) {
  ConfigTable c = ConfigTable::from_string("[training]\nmomentum = 0.9\n", "x.toml");
  c.get_double("optimizer.momentum", 0);
  expect_error(Blame::user, {"x.toml:2: training.momentum", "did you mean \"optimizer.momentum\"?"},
               [&] { c.finish(); });
  ConfigTable empty = ConfigTable::from_string("[odd]\n", "x.toml");
  expect_error(Blame::user, {"x.toml:1: odd", "unknown key", "remove it"}, [&] { empty.finish(); });
  ConfigTable list = ConfigTable::from_string("[[a]]\nk = 1\n[[a]]\nq = 1\n", "x.toml");
  for (const ConfigTable& a : list.tables("a")) a.get_int("k", 0);
  expect_error(Blame::user, {"x.toml:4: a[1].q"}, [&] { list.finish(); });
}

TEST(Config, OverridesReplaceAddAndParse) {
  ConfigTable c = sample();
  for (const char* given :
       {"batch=64", "model.name=resnet18", "optimizer.rate=1e-3", "shuffle=false", "device_memory=512 MiB",
        "devices=1,4", "strategies=[single, data]", "model.tag=50", "note=a=b\nbatch=3"})
    c.override_with(given);
  EXPECT_EQ(c.require_int("batch"), 64);
  EXPECT_EQ(c.table("model").require_string("name"), "resnet18");
  EXPECT_EQ(c.require_double("optimizer.rate"), 1e-3);
  EXPECT_FALSE(c.require_bool("shuffle"));
  EXPECT_EQ(c.get_bytes("device_memory", 0), 512 << 20);
  EXPECT_EQ(c.get_ints("devices", {}), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(c.get_strings("strategies", {}), (std::vector<std::string>{"single", "data"}));
  EXPECT_EQ(c.require_string("model.tag"), "50");
  EXPECT_EQ(c.require_string("note"), "a=b\nbatch=3");
  c.override_with("devices=3");
  EXPECT_EQ(c.get_ints("devices", {}), (std::vector<int64_t>{3}));
}

TEST(Config, OverridesAddKeysToTheTableThatAStringIsShortFor) {
  ConfigTable c = ConfigTable::from_string("batch = 1\nmodel = \"unet\"\nname = \"x\"\n", "x.toml");
  c.allow_short_form("model", "name");
  EXPECT_EQ(c.get_string("model", ""), "unet");
  c.override_with("model.options.width=4");
  EXPECT_EQ(c.table("model").require_string("name"), "unet");
  EXPECT_EQ(c.table("model").table("options").require_int("width"), 4);
  EXPECT_EQ(c.where("model.name"), "x.toml:2: model.name");
  c.override_with("model=segnet");
  c.override_with("model.options.depth=2");
  EXPECT_EQ(c.to_json()["model"], nlohmann::json::parse(R"({"name": "segnet", "options": {"depth": 2}})"));
  EXPECT_EQ(c.where("model.name"), "--set model=segnet");
  expect_error(Blame::user, {"--set name.x=1", "\"name\" is", "not a table", "set \"name\" itself"},
               [&] { c.override_with("name.x=1"); });
  c.override_with("model=5");
  expect_error(Blame::user, {"--set model.x=1", "not a table"}, [&] { c.override_with("model.x=1"); });
}

TEST(Config, OverridesThatAreWrongSaySo) {
  ConfigTable c = sample();
  c.override_with("batch=abc");
  expect_error(Blame::user, {"--set batch=abc", "abc", "whole number"}, [&] { c.require_int("batch"); });
  expect_error(Blame::user, {"--set batch.x=1", "not a table"}, [&] { c.override_with("batch.x=1"); });
  for (const char* given : {"batch", "=3", ".a=1", "a.=1", "a..b=1", "a b=1"})
    expect_error(Blame::user, {std::string("--set ") + given, "key=value"}, [&] { c.override_with(given); });
  ConfigTable d = ConfigTable::from_string("batch = 1\n", "x.toml");
  d.override_with("modle.name=x");
  d.get_int("batch", 0);
  d.get_string("model.name", "");
  expect_error(Blame::user, {"--set modle.name=x", "unknown key", "did you mean \"model.name\"?"}, [&] { d.finish(); });
}

TEST(Config, NamesWithDotsBlanksAndBrackets) {
  ConfigTable c = ConfigTable::from_string(
      "[columns]\n\"Sepal.Length\" = \"x\"\n\"price [EUR]\" = \"y\"\nplain = \"z\"\n[device.\"GPU.x\"]\nspeed = 2\n",
      "x.toml");
  const ConfigTable columns = c.table("columns");
  EXPECT_EQ(columns.keys(), (std::vector<std::string>{"Sepal.Length", "plain", "price [EUR]"}));
  EXPECT_EQ(columns.require_string("Sepal.Length"), "x");
  EXPECT_EQ(columns.require_string("price [EUR]"), "y");
  EXPECT_EQ(c.require_string("columns.\"price [EUR]\""), "y");
  EXPECT_EQ(c.table("device").table("GPU.x").require_int("speed"), 2);
  EXPECT_EQ(columns.where("Sepal.Length"), "x.toml:2: columns.\"Sepal.Length\"");
  expect_error(Blame::user, {"x.toml:3: columns.\"price [EUR]\"", "y", "whole number"},
               [&] { columns.require_int("price [EUR]"); });
  EXPECT_EQ(columns.require_string("plain"), "z");
  c.finish();

  c.override_with("columns.\"Sepal.Length\"=\"a\"");
  c.override_with("columns.'b = c'=d");
  c.override_with("columns.\"plain\"=e");
  EXPECT_EQ(columns.require_string("Sepal.Length"), "a");
  EXPECT_EQ(columns.require_string("b = c"), "d");
  EXPECT_EQ(columns.require_string("plain"), "e");
  EXPECT_EQ(columns.where("plain"), "--set columns.\"plain\"=e");
  c.override_with("columns.\"odd.one\"=1");
  expect_error(Blame::user, {"--set columns.\"odd.one\"=1", "unknown key"}, [&] { c.finish(); });
  expect_error(Blame::user, {"--set columns.b x=1", "key=value", "blanks needs quotes", "\"a b\""},
               [&] { c.override_with("columns.b x=1"); });
  for (const char* given : {"columns.\"b=1", "columns.\"b\"c=1", "a[0]=1"})
    expect_error(Blame::user, {given, "key=value"}, [&] { c.override_with(given); });
}

TEST(Config, SyntaxErrorsAreOneLineWithThePlace) {
  expect_error(Blame::user, {"x.toml:2", "not valid TOML"},
               [] { ConfigTable::from_string("a = 1\nb = = 2\n", "x.toml"); });
  expect_error(Blame::user, {"x.toml:2", "not valid TOML"},
               [] { ConfigTable::from_string("a = 1\na = 2\n", "x.toml"); });
  expect_error(Blame::user, {"/no/such.toml", "No such file"}, [] { ConfigTable::from_file("/no/such.toml"); });
}

TEST(Config, ReadsFilesAndGivesJson) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "config_test.toml";
  std::ofstream(path) << kText;
  ConfigTable c = ConfigTable::from_file(path);
  std::filesystem::remove(path);
  c.override_with("batch=7");
  EXPECT_EQ(c.where("rate"), path.string() + ":3: rate");
  EXPECT_EQ(c.to_json()["batch"], 7);
  EXPECT_EQ(c.to_json()["layer"][1]["kind"], "linear");
  EXPECT_EQ(c.table("model").to_json(), nlohmann::json::parse(R"({"name": "lenet", "width": 2})"));
}

}  // namespace
}  // namespace trireme
