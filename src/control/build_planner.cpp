#include "control/build_planner.h"

#include "base/json.h"
#include "image/copy_sources.h"
#include "wire/crypto.h"

namespace firebreak::control {
namespace {

// Of looking at the context, for one plan.
constexpr auto kPlanTime = std::chrono::seconds(60);
constexpr auto kDigestTime = std::chrono::seconds(10);

}  // namespace

Result<BuildPlanner::Read> BuildPlanner::read(const image::BuildContext& context,
                                              const std::string& file_name, Deadline deadline) {
  Read out;
  FB_TRY_ASSIGN(out.text, image::read_dockerfile(context, file_name));
  FB_TRY_ASSIGN(out.ignore, image::read_ignore_rules(context, file_name));
  FB_TRY(image::check_links(context, out.ignore, deadline));
  FB_TRY_ASSIGN(out.file, wire::parse_dockerfile(out.text, file_name));
  return out;
}

Result<> BuildPlanner::check_copies(const PlannedBuild& planned, const std::string& file_name,
                                    Deadline deadline) {
  for (const image::PlannedStage& stage : planned.plan.stages) {
    for (const image::BuildStep& step : stage.steps) {
      const auto* copy = std::get_if<image::CopyStep>(&step.action);
      if (copy == nullptr || copy->from.kind != image::FileSource::Kind::context) continue;
      auto found = image::select_sources(*planned.context, planned.ignore,
                                         {copy->sources, copy->excludes}, deadline);
      if (!found) return fail(found.error(), file_name + ":" + std::to_string(step.at.line));
    }
  }
  return {};
}

Result<std::string> BuildPlanner::digest_of(const PlannedBuild& planned, const std::string& text,
                                            Deadline deadline) {
  json::object bases;
  for (const auto& [name, base] : planned.bases) {
    // A tag of a registry may lead elsewhere by now.
    if (base.image.key.starts_with(kUnaskedRegistry)) return std::string();
    bases[name] = base.image.key;
  }
  auto files = image::select_sources(*planned.context, planned.ignore, {{"."}, {}}, deadline);
  if (!files && files.error().code != Code::not_found) return std::unexpected(files.error());
  const json::object parts{
      {"dockerfile", text}, {"files", files ? files->digest : "none"}, {"bases", std::move(bases)}};
  return wire::sha256_hex(json::serialize(parts));
}

template <class Work>
net::Task<std::invoke_result_t<Work, Deadline>> BuildPlanner::in_turn(
    core::TenantId tenant, std::chrono::nanoseconds& left, Work work, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const TenantQueue::Place turn,
                   co_await turns_.enter(std::move(tenant), [] { return false; }, deadline));
  const Deadline until = deadline.earlier(Deadline::in(left));
  const auto began = Deadline::Clock::now();
  auto call = [&] { return work(until); };
  auto result = co_await net::run_blocking(threads_, call);
  left -= Deadline::Clock::now() - began;
  co_return result;
}

net::Task<Result<PlannedBuild>> BuildPlanner::plan(PlanOrder order, Deadline deadline) {
  std::chrono::nanoseconds left = kPlanTime;
  PlannedBuild out{.context = order.context};
  const std::string& name = order.options.file_name;
  auto reading = [&](Deadline until) { return read(*order.context, name, until); };
  FB_CO_TRY_ASSIGN(Read first, co_await in_turn(order.tenant, left, reading, deadline));
  out.ignore = std::move(first.ignore);
  image::BaseImages known;
  std::vector<std::string> notes;
  for (;;) {
    FB_CO_TRY_ASSIGN(out.plan, image::plan_build(first.file, order.options, known));
    if (out.plan.missing.empty()) break;
    for (const std::string& base_name : out.plan.missing) {
      BaseQuery query{.tenant = order.tenant,
                      .name = base_name,
                      .context = order.context,
                      .registry = order.registry};
      FB_CO_TRY_ASSIGN(image::FoundBase base,
                       co_await bases_.find(std::move(query), notes, deadline));
      known[base_name] = base.image;
      out.bases[base_name] = std::move(base);
    }
  }
  out.plan.notes.insert(out.plan.notes.end(), notes.begin(), notes.end());
  auto copies = [&](Deadline until) { return check_copies(out, name, until); };
  FB_CO_TRY(co_await in_turn(order.tenant, left, copies, deadline));
  if (order.with_digest) {
    left = kDigestTime;
    auto digest = [&](Deadline until) { return digest_of(out, first.text, until); };
    out.digest = (co_await in_turn(order.tenant, left, digest, deadline)).value_or("");
  }
  co_return out;
}

}  // namespace firebreak::control
