// Plan files and their validation: what is refused, and in which words.
#include "plan/plan.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kBatch = 12;

Model mlp() { return make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", 2}}}); }

Plan hybrid(const Model& model) { return named_plan("data=2,tensor=2,pipeline=2,micro_batches=2", model, Cluster::uniform(8), kBatch, {}); }

/// Validates `plan` after `edit` and expects the error.
void refuse(const std::vector<std::string>& parts, const std::function<void(Plan&, const Model&)>& edit) {
  const Model model = mlp();
  Plan plan = hybrid(model);
  edit(plan, model);
  std::vector<std::string> all = parts;
  all.push_back("p.json");
  expect_error(Blame::user, all, [&] { validate(plan, model, kBatch, "p.json"); });
}

LayerPlan& fc1(Plan& plan, const Model& model) { return plan.layers[size_t(model.find("fc1"))]; }

TEST(Validate, AcceptsNamedPlans) {
  const Model model = mlp();
  EXPECT_NO_THROW(validate(hybrid(model), model, kBatch, "test"));
}

TEST(Validate, PlanForAnotherModel) {
  const Model model = mlp(), other = make_model({"mlp", {6}, 4, {{"hidden", 16}}});
  const Plan plan = named_plan("single", other, Cluster::uniform(1), kBatch, {});
  expect_error(Blame::user, {"p.json", "a plan for model mlp", other.fingerprint(), model.fingerprint(), "use a plan made for this model"},
               [&] { validate(plan, model, kBatch, "p.json"); });
}

TEST(Validate, Devices) {
  refuse({"devices = 0", "at least one"}, [](Plan& p, const Model&) { p.devices = 0; });
  refuse({"devices = 1000000", "at most"}, [](Plan& p, const Model&) { p.devices = 1'000'000; });
}

TEST(Validate, Stages) {
  refuse({"stage 1", "has no workers"}, [](Plan& p, const Model&) { p.stages[1].clear(); });
  refuse({"stage 1, worker 9", "workers are 0..7"}, [](Plan& p, const Model&) { p.stages[1][3] = 9; });
  refuse({"stage 0, worker -1", "workers are 0..7"}, [](Plan& p, const Model&) { p.stages[0][0] = -1; });
  refuse({"worker 2", "is in stage 0 and in stage 1"}, [](Plan& p, const Model&) { p.stages[1][0] = 2; });
  refuse({"worker 7", "is in no stage"}, [](Plan& p, const Model&) { p.stages[1].pop_back(); });
  refuse({"stage 0", "ascending"}, [](Plan& p, const Model&) { std::swap(p.stages[0][0], p.stages[0][1]); });
  refuse({"stage 1", "holds no layer"}, [](Plan& p, const Model&) {
    for (LayerPlan& layer : p.layers) layer.stage = 0;
  });
  refuse({"7 stages", "only 6 layers", "fewer stages"}, [](Plan& p, const Model&) { p.stages.resize(7, {0}); });
}

TEST(Validate, MicroBatches) {
  refuse({"micro_batches = 0", "at least one"}, [](Plan& p, const Model&) { p.micro_batches = 0; });
  refuse({"micro_batches = 13", "the batch has only 12 samples"}, [](Plan& p, const Model&) { p.micro_batches = 13; });
  refuse({"data degree 2", "batch = 12 in 12 micro-batches leaves 1 samples each"}, [](Plan& p, const Model&) { p.micro_batches = 12; });
}

TEST(Validate, Layers) {
  refuse({"layer fc1: stage 2", "the plan has 2 stages"}, [](Plan& p, const Model& m) { fc1(p, m).stage = 2; });
  refuse({"layer fc1: stage -1"}, [](Plan& p, const Model& m) { fc1(p, m).stage = -1; });
  refuse({"layer fc1", "data 2 x tensor 3 must equal the 4 workers of stage 0"}, [](Plan& p, const Model& m) { fc1(p, m).tensor = 3; });
  refuse({"layer fc1", "data 0 x tensor 2"}, [](Plan& p, const Model& m) { fc1(p, m).data = 0; });
  refuse({"layer fc1: split \"diagonal\"", "tensor degree of 2", "possible here: replicate, columns, rows"},
         [](Plan& p, const Model& m) { fc1(p, m).split = "diagonal"; });
}

TEST(Validate, SplitThatTheDegreeDoesNotAllow) {
  const Model model = mlp();
  Plan plan = named_plan("data=3", model, Cluster::uniform(3), kBatch, {});
  fc1(plan, model) = {0, 1, 3, "columns"};  // 8 features do not divide by 3
  expect_error(Blame::user, {"layer fc1: split \"columns\"", "degree of 3", "possible here: replicate"},
               [&] { validate(plan, model, kBatch, "p.json"); });
}

TEST(Validate, TiedParametersCutDifferently) {
  const Model model = make_model({"tied-mlp", {6}, 4, {{"hidden", 8}}});
  Plan plan = named_plan("tensor=2", model, Cluster::uniform(2), kBatch, {});
  plan.layers[size_t(model.find("shared"))].split = "columns";
  plan.layers[size_t(model.find("again"))].split = "rows";
  expect_error(Blame::user, {"parameter shared.weight", "shared (Shard(0))", "again (Shard(1))", "same split"},
               [&] { validate(plan, model, kBatch, "p.json"); });
  plan.layers[size_t(model.find("again"))].split = "columns";
  EXPECT_NO_THROW(validate(plan, model, kBatch, "p.json"));
}

TEST(PlanJson, RoundTrip) {
  const Model model = mlp();
  Plan plan = hybrid(model);
  fc1(plan, model).split = "rows";
  Plan back = plan_from_json(nlohmann::json::parse(to_json(plan, model).dump()), model, "test");
  EXPECT_EQ(back.name, plan.name);
  EXPECT_EQ(back.model, "mlp");
  EXPECT_EQ(back.model_fingerprint, plan.model_fingerprint);
  EXPECT_EQ(back.devices, 8);
  EXPECT_EQ(back.schedule, "gpipe");
  EXPECT_EQ(back.micro_batches, 2);
  EXPECT_EQ(back.stages, plan.stages);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    EXPECT_EQ(back.layers[size_t(id)], plan.layers[size_t(id)]) << model.node(id).name;
}

void refuse_json(const std::vector<std::string>& parts, const std::function<void(nlohmann::json&)>& edit) {
  const Model model = mlp();
  nlohmann::json json = to_json(hybrid(model), model);
  edit(json);
  std::vector<std::string> all = parts;
  all.push_back("p.json");
  expect_error(Blame::user, all, [&] { validate(plan_from_json(json, model, "p.json"), model, kBatch, "p.json"); });
}

TEST(PlanJson, Refused) {
  refuse_json({"trireme_plan = 2", "reads format 1", "make the plan again"}, [](auto& j) { j["trireme_plan"] = 2; });
  refuse_json({"not a plan", "trireme_plan", "compare with a plan.json"}, [](auto& j) { j.erase("trireme_plan"); });
  refuse_json({"not a plan", "stages"}, [](auto& j) { j.erase("stages"); });
  refuse_json({"not a plan"}, [](auto& j) { j = nlohmann::json::array(); });
  refuse_json({"devices = \"eight\"", "whole number"}, [](auto& j) { j["devices"] = "eight"; });
  refuse_json({"layer \"fc9\"", "no layer of that name", "correct the name"}, [](auto& j) { j["layers"][0]["layer"] = "fc9"; });
  refuse_json({"layer \"data\"", "no layer of that name"}, [](auto& j) { j["layers"][0]["layer"] = "data"; });
  refuse_json({"layer \"relu1\"", "is listed twice"}, [](auto& j) { j["layers"][0]["layer"] = "relu1"; });
  refuse_json({"layer \"fc1\"", "is missing", "add an entry"}, [](auto& j) { j["layers"].erase(0); });
  refuse_json({"not a plan", "tensor"}, [](auto& j) { j["layers"][0].erase("tensor"); });
}

TEST(PlanJson, FractionsAreNotCutOff) {
  refuse_json({"micro_batches = 2.5", "whole number"}, [](auto& j) { j["micro_batches"] = 2.5; });
  refuse_json({"layer fc1", "data = 2.5", "whole number"}, [](auto& j) { j["layers"][0]["data"] = 2.5; });
}

TEST(PlanJson, AnotherModelIsExplainedByValidate) {
  const Model other = make_model({"skip", {6}, 4, {}});
  const Model model = mlp();
  nlohmann::json json = to_json(named_plan("single", other, Cluster::uniform(1), kBatch, {}), other);
  expect_error(Blame::user, {"p.json", "a plan for model skip", "the experiment's model is mlp"},
               [&] { validate(plan_from_json(json, model, "p.json"), model, kBatch, "p.json"); });
}

TEST(PlanFile, Read) {
  const Model model = mlp();
  const auto file = std::filesystem::temp_directory_path() / "trireme_plan_test.json";
  std::ofstream(file) << to_json(hybrid(model), model).dump();
  EXPECT_EQ(read_plan(file, model).stages, hybrid(model).stages);
  std::ofstream(file) << "{\"trireme_plan\": 1,";
  expect_error(Blame::user, {file.string()}, [&] { read_plan(file, model); });
  std::filesystem::remove(file);
  expect_error(Blame::user, {file.string()}, [&] { read_plan(file, model); });
}

TEST(InShort, SaysWhatDiffers) {
  const Model model = mlp();
  auto text = [&](const char* name, int devices) { return named_plan(name, model, Cluster::uniform(devices), kBatch, {}).in_short(model); };
  EXPECT_EQ(text("single", 4), "one device");
  EXPECT_EQ(text("data", 3), "data 3");
  EXPECT_EQ(text("tensor", 2), "tensor 2");
  EXPECT_EQ(text("hybrid:tensor", 4), "data 2 x tensor 2");
  EXPECT_EQ(text("data=2,pipeline=2,micro_batches=3", 4), "data 2 x pipeline 2, 3 micro-batches");
  Plan edited = named_plan("data", model, Cluster::uniform(4), kBatch, {});
  for (NodeId id = model.find("fc2"); id < NodeId(model.nodes().size()); ++id) edited.layers[size_t(id)] = {0, 1, 4, "replicate"};
  EXPECT_EQ(edited.in_short(model), "data 4, then tensor 4 from fc2");
}

TEST(PlanFile, DegreesWhoseProductOverflowsAreRefused) {
  // 6 * 715827883 is 2 modulo 2^32
  refuse({"data 6 x tensor 715827883 must equal"}, [](Plan& p, const Model& m) { fc1(p, m).data = 6, fc1(p, m).tensor = 715827883; });
}

TEST(PlanFile, UnknownKeysAndBrokenNumbersAreRefused) {
  const Model model = mlp();
  const nlohmann::json good = to_json(hybrid(model), model);
  auto refuse_json = [&](const std::vector<std::string>& parts, const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json json = good;
    edit(json);
    expect_error(Blame::user, parts, [&] { plan_from_json(json, model, "p.json"); });
  };
  refuse_json({"p.json", "micro_batchs", "did you mean \"micro_batches\""}, [](auto& j) { j["micro_batchs"] = 4; });
  refuse_json({"p.json", "slpit", "did you mean \"split\""}, [](auto& j) { j["layers"][0]["slpit"] = "rows"; });
  refuse_json({"worker = 1.5", "whole number"}, [](auto& j) { j["stages"][0]["workers"][1] = 1.5; });
  refuse_json({"worker = 99999999999999", "whole number"}, [](auto& j) { j["stages"][0]["workers"][1] = 99999999999999; });
  refuse_json({"devices = 18446744073709551615"}, [](auto& j) { j["devices"] = UINT64_MAX; });
}

}  // namespace
}  // namespace trireme
