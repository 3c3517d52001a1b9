// Plan files and their validation: which are refused, and with which messages.
#include "trireme/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

Plan hybrid(const Model& model) {
  return named_plan("data=2,tensor=2,pipeline=2,micro_batches=2", model, Cluster::uniform(8), kBatch, {});
}

/// Validates a plan changed by `edit` and expects an error with these parts.
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
  expect_error(
      Blame::user,
      {"p.json", "a plan for model mlp", other.fingerprint(), model.fingerprint(), "use a plan made for this model"},
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
  refuse({"stage 0, worker 0", "is listed twice"}, [](Plan& p, const Model&) { p.stages[0][1] = 0; });
  refuse({"stage 0", "ascending"}, [](Plan& p, const Model&) { std::swap(p.stages[0][0], p.stages[0][1]); });
  refuse({"stage 1", "holds no layer"}, [](Plan& p, const Model&) {
    for (LayerPlan& layer : p.layers) layer.stage = 0;
  });
  refuse({"7 stages", "only 6 layers", "fewer stages"}, [](Plan& p, const Model&) { p.stages.resize(7, {0}); });
}

TEST(Validate, StagesMayShareAllOfTheirWorkers) {
  const Model model = mlp();
  Plan plan = named_plan("data=2,pipeline=2,micro_batches=2", model, Cluster::uniform(4), kBatch, {});
  plan.stages = {{0, 1, 2, 3}, {0, 1, 2, 3}};
  for (LayerPlan& layer : plan.layers) layer.data = 4;
  EXPECT_NO_THROW(validate(plan, model, kBatch, "p.json"));
  EXPECT_EQ(plan.positions(), 1);
  plan.stages = {{0, 1, 2, 3}, {1, 2, 3}};
  expect_error(Blame::user, {"p.json", "worker 1", "is in stage 0 and in stage 1", "all of their workers or none"},
               [&] { validate(plan, model, kBatch, "p.json"); });
}

TEST(Validate, Extras) {
  refuse({"vertical_sync = true with schedule gpipe", "only schedule pipedream"},
         [](Plan& p, const Model&) { p.vertical_sync = true; });
  refuse({"compression: rank = 0", "at least 1"}, [](Plan& p, const Model&) {
    p.compression = {Compression::Kind::powersgd, 0};
  });
  refuse({"7 cluster_devices", "the plan is for 8 devices"},
         [](Plan& p, const Model&) { p.cluster_devices.assign(7, 1); });
  refuse({"cluster_devices: 5", "listed twice"},
         [](Plan& p, const Model&) { p.cluster_devices = {1, 2, 3, 4, 5, 6, 7, 5}; });
  refuse({"cluster_devices: -1", "count from 0"},
         [](Plan& p, const Model&) { p.cluster_devices = {0, 1, 2, 3, 4, 5, 6, -1}; });
  refuse({"7 speeds", "the plan is for 8 devices"}, [](Plan& p, const Model&) { p.speeds.assign(7, 1); });
  for (double bad : {0.0, -1.0, double(INFINITY), double(NAN)})
    refuse({"speed", "must be a positive number"},
           [&](Plan& p, const Model&) { p.speeds = {1, 1, 1, 1, 1, 1, 1, bad}; });
  refuse({"layer fc1: speeds", "none of 6 samples"},
         [](Plan& p, const Model&) { p.speeds = {1, 1, 20, 20, 1, 1, 1, 1}; });
}

TEST(Mesh, SharesAreTheSpeedsOfTensorGroups) {
  const Model model = mlp();
  Plan plan = hybrid(model);  // stages of data 2 x tensor 2
  const NodeId first = model.find("fc1"), last = model.loss();
  EXPECT_TRUE(plan.mesh_of(first).shares.empty());
  plan.speeds = {1, 3, 2, 2, 1, 2, 3, 4};
  EXPECT_TRUE(plan.mesh_of(first).shares.empty());  // speeds add up to 4 : 4
  EXPECT_EQ(plan.mesh_of(last).shares, (std::vector<double>{3, 7}));
  EXPECT_EQ(plan.mesh_of(last).workers, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_TRUE(fills_all_shards(plan.mesh_of(last), 2));
  EXPECT_FALSE(fills_all_shards(plan.mesh_of(last), 1));
  EXPECT_FALSE(fills_all_shards(plan.mesh_of(first), 1));
}

TEST(GradientNeeded, AsTheValueButSummandsAreNeededWhole) {
  EXPECT_EQ(gradient_needed(Placement::shard(1)), Placement::shard(1));
  EXPECT_EQ(gradient_needed(Placement::partial()), Placement::replicate());
  EXPECT_EQ(gradient_needed(Placement::replicate()), Placement::replicate());
}

TEST(OptionOf, IsTheOneOfThatName) {
  const Model model = mlp();
  Plan plan = hybrid(model);
  for (const char* split : {"replicate", "columns", "rows"}) {
    fc1(plan, model).split = split;
    EXPECT_EQ(option_of(plan, model, model.find("fc1")).name, split);
  }
}

TEST(Validate, MicroBatches) {
  refuse({"micro_batches = 0", "at least one"}, [](Plan& p, const Model&) { p.micro_batches = 0; });
  refuse({"micro_batches = 13", "the batch has only 12 samples"}, [](Plan& p, const Model&) { p.micro_batches = 13; });
  refuse({"data degree 2", "batch = 12 in 12 micro-batches leaves 1 samples each"},
         [](Plan& p, const Model&) { p.micro_batches = 12; });
}

TEST(Validate, Layers) {
  refuse({"layer fc1: stage 2", "the plan has 2 stages"}, [](Plan& p, const Model& m) { fc1(p, m).stage = 2; });
  refuse({"layer fc1: stage -1"}, [](Plan& p, const Model& m) { fc1(p, m).stage = -1; });
  refuse({"layer fc1", "data 2 x tensor 3 must equal the 4 workers of stage 0"},
         [](Plan& p, const Model& m) { fc1(p, m).tensor = 3; });
  refuse({"layer fc1", "data 0 x tensor 2"}, [](Plan& p, const Model& m) { fc1(p, m).data = 0; });
  refuse({"layer fc1: split \"diagonal\"", "tensor degree of 2", "possible here: replicate, columns, rows"},
         [](Plan& p, const Model& m) { fc1(p, m).split = "diagonal"; });
}

TEST(Validate, SplitThatTheDegreeDoesNotAllow) {
  const Model model = mlp();
  Plan plan = named_plan("data=3", model, Cluster::uniform(3), kBatch, {});
  fc1(plan, model) = {0, 1, 3, "columns"};  // 8 features cannot be divided by 3
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

TEST(PlanJson, UsualSettingsAreNotWritten) {
  const Model model = mlp();
  const nlohmann::json json = to_json(hybrid(model), model);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"devices", "layers", "micro_batches", "model", "model_fingerprint", "name",
                                            "schedule", "stages", "trireme_plan"}));
  EXPECT_FALSE(json.at("layers").at(0).contains("recompute"));
}

TEST(PlanJson, RoundTripOfEverything) {
  const Model model = mlp();
  for (Compression compression :
       {Compression{}, Compression{Compression::Kind::bf16}, Compression{Compression::Kind::bf16_stored},
        Compression{Compression::Kind::powersgd, 7}})
    for (auto sharding :
         {OptimizerSharding::none, OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3}) {
      Plan plan = hybrid(model);
      plan.schedule = "pipedream";
      plan.vertical_sync = true;
      plan.recompute_last = false;
      plan.recompute_communication = plan.scatter_messages = true;
      plan.optimizer_sharding = sharding;
      plan.sharding_group = 2;
      plan.compression = compression;
      plan.speeds = {1, 0.1, 3, 4, 5, 6, 7, 1.0 / 3};
      plan.cluster_devices = {8, 9, 10, 11, 3, 2, 1, 0};
      fc1(plan, model).recompute = "a label";
      EXPECT_EQ(plan_from_json(nlohmann::json::parse(to_json(plan, model).dump()), model, "test").speeds, plan.speeds);
      Plan back = plan_from_json(nlohmann::json::parse(to_json(plan, model).dump()), model, "test");
      for (NodeId id = 0; id < model.input_count(); ++id) back.layers[size_t(id)] = plan.layers[size_t(id)];  // unused
      EXPECT_EQ(back, plan);
    }
}

TEST(PlanJson, WaysToWriteCompression) {
  const Model model = mlp();
  const auto read = [&](const nlohmann::json& value) {
    nlohmann::json json = to_json(hybrid(model), model);
    json["compression"] = value;
    return plan_from_json(json, model, "p.json").compression;
  };
  EXPECT_EQ(read("none"), Compression{});
  EXPECT_EQ(read("bf16").kind, Compression::Kind::bf16);
  EXPECT_EQ(read("bf16-stored").kind, Compression::Kind::bf16_stored);
  EXPECT_EQ(read("powersgd"), (Compression{Compression::Kind::powersgd, 4}));
  EXPECT_EQ(read({{"kind", "powersgd"}, {"rank", 2}}), (Compression{Compression::Kind::powersgd, 2}));
  EXPECT_EQ(read({{"kind", "bf16"}}).kind, Compression::Kind::bf16);
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
  refuse_json({"not a plan", "this is an array"}, [](auto& j) { j = nlohmann::json::array(); });
  refuse_json({"model \"resnet18\"", "its fingerprint is that of mlp", "correct the name"},
              [](auto& j) { j["model"] = "resnet18"; });
  refuse_json({"devices = \"eight\"", "whole number"}, [](auto& j) { j["devices"] = "eight"; });
  refuse_json({"layer \"fc9\"", "no layer of that name", "correct the name"},
              [](auto& j) { j["layers"][0]["layer"] = "fc9"; });
  refuse_json({"layer \"data\"", "no layer of that name"}, [](auto& j) { j["layers"][0]["layer"] = "data"; });
  refuse_json({"layer \"relu1\"", "is listed twice"}, [](auto& j) { j["layers"][0]["layer"] = "relu1"; });
  refuse_json({"layer \"fc1\"", "is missing", "add an entry"}, [](auto& j) { j["layers"].erase(0); });
  refuse_json({"not a plan", "tensor"}, [](auto& j) { j["layers"][0].erase("tensor"); });
  refuse_json({"not a plan", "string"}, [](auto& j) { j["layers"][0]["recompute"] = 3; });
}

TEST(PlanJson, RefusedExtras) {
  refuse_json({"vertical_sync = 1", "true or false"}, [](auto& j) { j["vertical_sync"] = 1; });
  refuse_json({"recompute_last = \"no\"", "true or false"}, [](auto& j) { j["recompute_last"] = "no"; });
  refuse_json({"optimizer_sharding = \"zero4\"", "did you mean \"zero"},
              [](auto& j) { j["optimizer_sharding"] = "zero4"; });
  refuse_json({"optimizer_sharding = 1", "known are none, zero1, zero2, zero3"},
              [](auto& j) { j["optimizer_sharding"] = 1; });
  refuse_json({"compression = \"powersdg\"", "did you mean \"powersgd\""},
              [](auto& j) { j["compression"] = "powersdg"; });
  refuse_json({"compression: kind = \"zip\"", "known are none, bf16, bf16-stored, powersgd"}, [](auto& j) {
    j["compression"] = {{"kind", "zip"}};
  });
  refuse_json({"compression", "rnak", "did you mean \"rank\""}, [](auto& j) {
    j["compression"] = {{"kind", "powersgd"}, {"rnak", 1}};
  });
  refuse_json({"rank with bf16", "only powersgd"}, [](auto& j) { j["compression"] = {{"kind", "bf16"}, {"rank", 1}}; });
  refuse_json({"rank = 1.5", "whole number"}, [](auto& j) {
    j["compression"] = {{"kind", "powersgd"}, {"rank", 1.5}};
  });
  refuse_json({"not a plan", "kind"}, [](auto& j) { j["compression"] = {{"rank", 1}}; });
  refuse_json({"0 replicas of", "at least one"}, [](auto& j) { j["replicas"] = 0; });
  refuse_json({"2147483647 replicas of", "at most 65536 devices"}, [](auto& j) { j["replicas"] = 2147483647; });
  refuse_json({"cluster_devices = 3", "a list of numbers"}, [](auto& j) { j["cluster_devices"] = 3; });
  refuse_json({"cluster_devices = 1.5", "whole number"}, [](auto& j) { j["cluster_devices"] = {1.5, 2}; });
  refuse_json({"speeds = \"fast\"", "a list of numbers"}, [](auto& j) { j["speeds"] = "fast"; });
  refuse_json({"speeds = [1,\"2\"]", "a list of numbers"}, [](auto& j) { j["speeds"] = {1, "2"}; });
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
  auto text = [&](const char* name, int devices) {
    return named_plan(name, model, Cluster::uniform(devices), kBatch, {}).in_short(model);
  };
  EXPECT_EQ(text("single", 4), "one device");
  EXPECT_EQ(text("data", 3), "data 3");
  EXPECT_EQ(text("tensor", 2), "tensor 2");
  EXPECT_EQ(text("hybrid:tensor", 4), "data 2 x tensor 2");
  EXPECT_EQ(text("data=2,pipeline=2,micro_batches=3", 4), "data 2 x pipeline 2, 3 micro-batches");
  EXPECT_EQ(text("1f1b", 2), "pipeline 2, 8 micro-batches, 1f1b");
  EXPECT_EQ(text("interleaved", 2), "pipeline 2 (2 chunks), 8 micro-batches, interleaved");
  EXPECT_EQ(text("zero-bubble-v", 2), "pipeline 2 (2 chunks), 8 micro-batches, zero-bubble-v");
  EXPECT_EQ(text("pipedream,vertical_sync=1", 2), "pipeline 2, pipedream with vertical sync");
  EXPECT_EQ(text("zero2,micro_batches=4", 2), "data 2, 4 micro-batches, 1f1b, zero2");
  EXPECT_EQ(text("zero2,sharding_group=2", 4), "data 4, zero2 in groups of 2");
  EXPECT_EQ(text("data,recompute=all,compression=bf16,speeds=2:1", 2), "data 2, recompute, bf16 gradients, speeds 2:1");
  EXPECT_EQ(text("tensor,recompute=all,recompute_communication=1", 2), "tensor 2, recompute with communication");
  EXPECT_EQ(text("data,recompute=except_last,compression=powersgd:2,speeds=1:0.5", 2),
            "data 2, recompute except last, powersgd rank 2, speeds 1:0.5");
  Plan elsewhere = named_plan("data", model, Cluster::uniform(4), kBatch, {});
  elsewhere.cluster_devices = {5, 6, 7, 2};
  EXPECT_EQ(elsewhere.in_short(model), "data 4, on devices 5-7, 2");
  Plan edited = named_plan("data", model, Cluster::uniform(4), kBatch, {});
  for (NodeId id = model.find("fc2"); id < NodeId(model.nodes().size()); ++id)
    edited.layers[size_t(id)] = {0, 1, 4, "replicate"};
  EXPECT_EQ(edited.in_short(model), "data 4, then tensor 4 from fc2");
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    edited.layers[size_t(id)] = id % 2 ? LayerPlan{0, 1, 4, "replicate"} : LayerPlan{0, 4, 1, "replicate"};
  const std::string many = edited.in_short(model);
  EXPECT_EQ(std::ranges::count(many, ','), 4) << many;
  EXPECT_NE(many.find(fmt::format(", then {} more", int(model.nodes().size()) - model.input_count() - 1 - 3)),
            many.npos)
      << many;
}

TEST(PlanFile, DegreesWhoseProductOverflowsAreRefused) {
  // 6 * 715827883 is 2 modulo 2^32.
  refuse({"data 6 x tensor 715827883 must equal"},
         [](Plan& p, const Model& m) { fc1(p, m).data = 6, fc1(p, m).tensor = 715827883; });
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
  refuse_json({"worker = 99999999999999", "whole number"},
              [](auto& j) { j["stages"][0]["workers"][1] = 99999999999999; });
  refuse_json({"devices = 18446744073709551615"}, [](auto& j) { j["devices"] = UINT64_MAX; });
}

TEST(PlanFile, KeysWithoutEffectAreRefused) {
  const Model model = mlp();
  const nlohmann::json data = to_json(named_plan("data", model, Cluster::uniform(2), kBatch, {}), model);
  for (const char* key : {"scatter_messages", "recompute_communication"}) {
    nlohmann::json json = data;
    json[key] = true;
    expect_error(Blame::user, {"p.json", std::string(key) + " = true", "leave it out"},
                 [&] { plan_from_json(json, model, "p.json"); });
  }
}

}  // namespace
}  // namespace trireme
