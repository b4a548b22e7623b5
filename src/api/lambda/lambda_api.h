// The Lambda MicroVMs API, version 2025-09-09: what the official AWS SDKs call. Inputs are checked
// by the tables of operations.h; the operations themselves are in the files beside this one.
// Owned by the AwsApi; one executor.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/aws/aws_call.h"
#include "api/lambda/artifacts.h"
#include "api/lambda/names.h"
#include "api/lambda/operations.h"
#include "api/router.h"
#include "control/images.h"
#include "control/supervisor.h"
#include "ingress/endpoint_tokens.h"

namespace firebreak::api {

struct LambdaOptions {
  // Longer lives and shorter idle times than AWS allows.
  bool extensions = false;
  // ARM_64 is taken as the host's own architecture instead of being refused.
  bool arm_alias = false;
  // Calls a second, per tenant, by operation; those not named are not limited.
  std::map<std::string, std::uint32_t> rates;
};

// One create or update of an image, checked.
struct ImageOrder {
  control::BuildRequest build;
  ArtifactPlace code;
  std::string base_version;  // "1"
};

// What the façade asks others for.
struct LambdaParts {
  control::Supervisor& supervisor;
  control::Images& images;
  const Artifacts& artifacts;
  ingress::EndpointTokens& tokens;
  // As Builds::order_now.
  std::function<net::Task<Result<control::NewVersion>>(core::Tenant, control::BuildRequest)> build;
  // Host and path of a microVM's endpoint, without a scheme.
  std::function<std::string(const core::Microvm&)> endpoint;
};

class LambdaApi final : public AwsService {
 public:
  LambdaApi(LambdaParts parts, LambdaOptions options);

  net::Task<AwsResult<>> handle(AwsCall& call) override;
  AwsReply render(const AwsError& error, const std::string& request_id) const override;
  std::vector<Surface> surface() const override;
  std::size_t body_limit() const override { return 1UL << 20; }

 private:
  // An operation's call: its checked input. Answers are the body; an empty status-204 has none.
  struct Input {
    AwsCall& call;
    const lambda::Operation& operation;
    lambda::ArnScope place;
    json::object body;

    const core::TenantId& tenant() const { return call.tenant(); }
    bool has(std::string_view name) const;
    std::string text(std::string_view name) const;  // "" when absent
    std::string text_in(std::string_view structure, std::string_view name) const;
    std::map<std::string, std::string> strings(std::string_view name) const;  // of a map
    std::int64_t number(std::string_view name, std::int64_t fallback) const;
    const json::object* object(std::string_view name) const;
    const json::array* list(std::string_view name) const;
    core::MicrovmId microvm() const { return core::MicrovmId(text("microvmIdentifier")); }
    std::uint32_t page_size() const { return static_cast<std::uint32_t>(number("maxResults", 50)); }
  };
  using Answer = net::Task<AwsResult<json::object>>;
  using Handler = Answer (LambdaApi::*)(Input&);
  using Rows = std::map<std::string, json::object, std::greater<>>;  // by key, largest first

  static Handler handler_of(std::string_view operation);
  AwsResult<json::object> read_input(const AwsCall& call, const lambda::Operation& operation,
                                     const std::map<std::string, std::string>& labels) const;
  static void name_resource(const Input& in, AwsError& error);
  AwsResult<> throttle(const AwsCall& call, const lambda::Operation& operation);

  // permissions
  net::Task<AwsResult<>> authorize(Input& in);
  net::Task<AwsResult<std::string>> resource_of(Input& in);
  static AwsResult<> allow_connectors(const Input& in, const std::vector<std::string>& names);
  static AwsResult<> allow_order(const Input& in, const ImageOrder& order);
  // With the connectors it will have.
  static AwsResult<> allow_run(const Input& in, std::vector<std::string> ingress,
                               std::string egress);
  // The name of the role that the request names; empty when it names none.
  AwsResult<std::string> execution_role(const Input& in) const;
  // Of those that are known here.
  std::string build_role(const Input& in) const;
  net::Task<AwsResult<bool>> has_managed_image(core::Microvm microvm);

  // microVMs
  Answer run_microvm(Input& in);
  Answer get_microvm(Input& in);
  Answer list_microvms(Input& in);
  Answer suspend_microvm(Input& in);
  Answer resume_microvm(Input& in);
  Answer terminate_microvm(Input& in);
  Answer create_auth_token(Input& in);
  Answer create_shell_auth_token(Input& in);
  json::object microvm_json(const lambda::ArnScope& place, const core::Microvm& microvm,
                            bool managed) const;
  AwsResult<json::object> run_config(const Input& in, const core::ImageVersion& version) const;
  AwsResult<json::array> connectors(const Input& in, const json::array& arns,
                                    lambda::Direction direction) const;
  Answer issue(Input& in, core::Microvm microvm, ingress::TokenRequest request);

  // images
  Answer create_image(Input& in);
  Answer update_image(Input& in);
  Answer get_image(Input& in);
  Answer list_images(Input& in);
  Answer delete_image(Input& in);
  Answer get_version(Input& in);
  Answer list_versions(Input& in);
  Answer update_version(Input& in);
  Answer delete_version(Input& in);
  Answer get_build(Input& in);
  Answer list_builds(Input& in);
  Answer list_managed(Input& in);
  Answer list_managed_versions(Input& in);
  // The caller's own image, or, where `any`, also a managed one.
  net::Task<AwsResult<core::Image>> find_image(Input& in, std::string identifier, bool any);
  net::Task<AwsResult<core::ImageVersion>> find_version(core::Image image, std::string text);
  net::Task<AwsResult<std::optional<control::NewVersion>>> find_replay(Input& in, std::string hash);
  AwsResult<ImageOrder> read_order(const Input& in) const;
  net::Task<AwsResult<>> check_egress(Input& in, std::string name);
  // What the order becomes: its context is fetched when the build goes on.
  net::Task<Result<control::NewVersion>> place_order(Input& in, ImageOrder order);
  static AwsResult<> read_base(const Input& in, ImageOrder& order);
  AwsResult<> read_machine(const Input& in, ImageOrder& order) const;
  static AwsResult<json::object> page(const Input& in, const Rows& rows);

  // tags
  Answer tag_resource(Input& in);
  Answer untag_resource(Input& in);
  Answer list_tags(Input& in);

  store::Database& db() const { return parts_.supervisor.services().db; }

  LambdaParts parts_;
  LambdaOptions options_;
  std::vector<lambda::Operation> operations_;
  Router router_;
  std::map<std::pair<core::TenantId, std::string>, core::TokenBucket> buckets_;
};

}  // namespace firebreak::api
