#include "api/lambda/operations.h"

#include <algorithm>
#include <array>

namespace firebreak::api::lambda {
namespace {

using Kind = Shape::Kind;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_alnum(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool no_space(std::string_view text) {
  return std::ranges::none_of(text, is_space);
}
bool is_image_name(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '-' || c == '_'; });
}
// arn:PARTITION:iam::ACCOUNT:role/PATH
bool is_role_arn(std::string_view text) {
  if (!text.starts_with("arn:aws")) return false;
  const auto at = text.find(":iam::");
  if (at == std::string_view::npos || text.substr(0, at).find(':', 4) != std::string_view::npos)
    return false;
  const std::string_view rest = text.substr(at + 6);
  return rest.size() > 18 && std::ranges::all_of(rest.substr(0, 12), is_digit) &&
         rest.substr(12).starts_with(":role/") && no_space(rest);
}
bool is_log_group(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return is_alnum(c) || std::string_view("_-/.#").find(c) != std::string_view::npos;
  });
}
bool is_log_stream(std::string_view text) {
  return text.find_first_of(":*") == std::string_view::npos;
}
// Letters of any script are left to pass: what must not is control characters and other marks.
bool is_tag_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return is_alnum(c) || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view(" _.:/=+-@").find(c) != std::string_view::npos;
  });
}
bool is_s3_uri(std::string_view text) {
  constexpr std::string_view kScheme = "s3://";
  if (!text.starts_with(kScheme) || !no_space(text)) return false;
  const auto slash = text.find('/', kScheme.size());
  return slash != std::string_view::npos && slash > kScheme.size() && slash + 1 < text.size();
}
bool is_taggable_arn(std::string_view text) {
  if (!text.starts_with("arn:aws") || text.find(":lambda:") == std::string_view::npos) return false;
  return std::ranges::any_of(
      std::array<std::string_view, 7>{
          ":function:", ":layer:", ":code-signing-config:", ":event-source-mapping:",
          ":capacity-provider:", ":network-connector:", ":microvm-image:"},
      [text](std::string_view kind) { return text.find(kind) != std::string_view::npos; });
}

// ------------------------------------------------------------------------------------------ shapes

constexpr Pattern kNoSpace{no_space, "\\S+"};
constexpr Shape kIdentifier{.least = 1, .most = 256};
constexpr Shape kNonBlank{.least = 1, .most = 2048, .pattern = kNoSpace};
constexpr Shape kAnyText{};
constexpr Shape kClientToken{.least = 1, .most = 128};
constexpr Shape kRoleArn{
    .least = 20,
    .most = 2048,
    .pattern = {is_role_arn, "arn:aws[a-zA-Z-]*:iam::\\d{12}:role/?[a-zA-Z_0-9+=,.@\\-_/]+"}};
constexpr Shape kImageName{.least = 1, .most = 64, .pattern = {is_image_name, "[a-zA-Z0-9-_]+"}};
constexpr Shape kConnector{.least = 1, .most = 2048};
constexpr Shape kConnectors{.kind = Kind::list, .most = 10, .element = &kConnector};
constexpr Shape kImageConnectors{.kind = Kind::list, .most = 1, .element = &kConnector};
constexpr Shape kBoolean{.kind = Kind::boolean};
constexpr Shape kMaxResults{.kind = Kind::integer, .least = 1, .most = 50};
constexpr Shape kPort{.kind = Kind::integer, .least = 1, .most = 65535};
constexpr Shape kPositive{.kind = Kind::integer, .least = 1};
constexpr Shape kNotNegative{.kind = Kind::integer};
constexpr Shape kEmpty{.kind = Kind::structure};

constexpr Shape kLogGroup{
    .least = 1, .most = 512, .pattern = {is_log_group, "[\\.\\-_/#A-Za-z0-9]+"}};
constexpr Shape kLogStream{.least = 1, .most = 512, .pattern = {is_log_stream, "[^:*]*"}};
constexpr Member kCloudWatchMembers[]{{"logGroup", &kLogGroup}, {"logStream", &kLogStream}};
constexpr Shape kCloudWatch{.kind = Kind::structure, .members = kCloudWatchMembers};
constexpr Member kLoggingMembers[]{{"disabled", &kEmpty}, {"cloudWatch", &kCloudWatch}};
constexpr Shape kLogging{.kind = Kind::tagged_union, .members = kLoggingMembers};

constexpr Shape kMaxIdle{.kind = Kind::integer, .least = 60, .most = 28800};
constexpr Member kIdlePolicyMembers[]{{"maxIdleDurationSeconds", &kMaxIdle, true},
                                      {"suspendedDurationSeconds", &kNotNegative, true},
                                      {"autoResumeEnabled", &kBoolean, true}};
constexpr Shape kIdlePolicy{.kind = Kind::structure, .members = kIdlePolicyMembers};
constexpr Shape kDuration{.kind = Kind::integer, .least = 1, .most = 28800};
constexpr Shape kPayload{.most = 4096};

constexpr Shape kS3Uri{.least = 1, .most = 2048, .pattern = {is_s3_uri, "s3://[^/\\s]+/\\S+"}};
constexpr Member kCodeArtifactMembers[]{{"uri", &kS3Uri}};
constexpr Shape kCodeArtifact{.kind = Kind::tagged_union, .members = kCodeArtifactMembers};

constexpr std::string_view kArchitectureValues[]{"ARM_64", "X86_64"};
constexpr Shape kArchitecture{.values = kArchitectureValues};
constexpr Member kCpuMembers[]{{"architecture", &kArchitecture, true}};
constexpr Shape kCpu{.kind = Kind::structure, .members = kCpuMembers};
constexpr Shape kCpus{.kind = Kind::list, .element = &kCpu};
constexpr Member kResourceMembers[]{{"minimumMemoryInMiB", &kPositive, true}};
constexpr Shape kResource{.kind = Kind::structure, .members = kResourceMembers};
constexpr Shape kResources{.kind = Kind::list, .most = 1, .element = &kResource};
constexpr std::string_view kCapabilityValues[]{"ALL"};
constexpr Shape kCapability{.values = kCapabilityValues};
constexpr Shape kCapabilities{.kind = Kind::list, .element = &kCapability};

constexpr std::string_view kHookStates[]{"ENABLED", "DISABLED"};
constexpr Shape kHookState{.values = kHookStates};
constexpr Shape kBuildTimeout{.kind = Kind::integer, .least = 1, .most = 3600};
constexpr Shape kRunTimeout{.kind = Kind::integer, .least = 1, .most = 60};
constexpr Member kImageHookMembers[]{{"ready", &kHookState},
                                     {"readyTimeoutInSeconds", &kBuildTimeout},
                                     {"validate", &kHookState},
                                     {"validateTimeoutInSeconds", &kBuildTimeout}};
constexpr Shape kImageHooks{.kind = Kind::structure, .members = kImageHookMembers};
constexpr Member kMicrovmHookMembers[]{
    {"run", &kHookState},       {"runTimeoutInSeconds", &kRunTimeout},
    {"resume", &kHookState},    {"resumeTimeoutInSeconds", &kRunTimeout},
    {"suspend", &kHookState},   {"suspendTimeoutInSeconds", &kRunTimeout},
    {"terminate", &kHookState}, {"terminateTimeoutInSeconds", &kRunTimeout}};
constexpr Shape kMicrovmHooks{.kind = Kind::structure, .members = kMicrovmHookMembers};
constexpr Member kHooksMembers[]{
    {"port", &kPort}, {"microvmImageHooks", &kImageHooks}, {"microvmHooks", &kMicrovmHooks}};
constexpr Shape kHooks{.kind = Kind::structure, .members = kHooksMembers};

constexpr Shape kVariableName{.least = 1, .most = 256, .pattern = kNoSpace};
constexpr Shape kVariableValue{.most = 4096};
constexpr Shape kEnvironment{
    .kind = Kind::map, .most = 50, .key = &kVariableName, .element = &kVariableValue};
constexpr std::string_view kTagPattern = "[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*";
constexpr Shape kTagKey{.least = 1, .most = 128, .pattern = {is_tag_text, kTagPattern}};
constexpr Shape kTagValue{.most = 256, .pattern = {is_tag_text, kTagPattern}};
constexpr Shape kTags{.kind = Kind::map, .most = 50, .key = &kTagKey, .element = &kTagValue};
constexpr Shape kTagKeys{.kind = Kind::list, .least = 1, .most = 50, .element = &kTagKey};
constexpr Shape kTaggable{
    .least = 1,
    .most = 10000,
    .pattern = {is_taggable_arn,
                "arn:(aws[a-zA-Z-]*):lambda:[a-z0-9-]+:\\d{12}:(function|layer|"
                "code-signing-config|event-source-mapping|capacity-provider|network-connector|"
                "microvm-image):.+"}};

constexpr std::string_view kStatusValues[]{"ACTIVE", "INACTIVE"};
constexpr Shape kStatus{.values = kStatusValues};

constexpr Member kRangeMembers[]{{"startPort", &kPort, true}, {"endPort", &kPort, true}};
constexpr Shape kRange{.kind = Kind::structure, .members = kRangeMembers};
constexpr Member kPortMembers[]{{"port", &kPort}, {"range", &kRange}, {"allPorts", &kEmpty}};
constexpr Shape kPortSpecification{.kind = Kind::tagged_union, .members = kPortMembers};
constexpr Shape kAllowedPorts{
    .kind = Kind::list, .least = 1, .most = 100, .element = &kPortSpecification};

// ------------------------------------------------------------------------------------------ inputs

constexpr Member kMicrovm{"microvmIdentifier", &kIdentifier, true, In::label};
constexpr Member kImage{"imageIdentifier", &kIdentifier, true, In::label};
constexpr Member kVersion{"imageVersion", &kNonBlank, true, In::label};
constexpr Member kMost{"maxResults", &kMaxResults, false, In::query};
constexpr Member kNext{"nextToken", &kAnyText, false, In::query};

constexpr Member kRunInput[]{{"imageIdentifier", &kIdentifier, true},
                             {"imageVersion", &kNonBlank},
                             {"ingressNetworkConnectors", &kConnectors},
                             {"egressNetworkConnectors", &kConnectors},
                             {"executionRoleArn", &kRoleArn},
                             {"idlePolicy", &kIdlePolicy},
                             {"logging", &kLogging},
                             {"runHookPayload", &kPayload},
                             {"maximumDurationInSeconds", &kDuration},
                             {"clientToken", &kClientToken}};
constexpr Shape kFreeMaxIdle{.kind = Kind::integer, .least = 1};
constexpr Member kFreeIdlePolicyMembers[]{{"maxIdleDurationSeconds", &kFreeMaxIdle, true},
                                          {"suspendedDurationSeconds", &kNotNegative, true},
                                          {"autoResumeEnabled", &kBoolean, true}};
constexpr Shape kFreeIdlePolicy{.kind = Kind::structure, .members = kFreeIdlePolicyMembers};
constexpr Shape kFreeDuration{.kind = Kind::integer, .least = 1, .most = 366L * 24 * 3600};
constexpr Member kFreeRunInput[]{{"imageIdentifier", &kIdentifier, true},
                                 {"imageVersion", &kNonBlank},
                                 {"ingressNetworkConnectors", &kConnectors},
                                 {"egressNetworkConnectors", &kConnectors},
                                 {"executionRoleArn", &kRoleArn},
                                 {"idlePolicy", &kFreeIdlePolicy},
                                 {"logging", &kLogging},
                                 {"runHookPayload", &kPayload},
                                 {"maximumDurationInSeconds", &kFreeDuration},
                                 {"clientToken", &kClientToken}};
constexpr Member kMicrovmInput[]{kMicrovm};
constexpr Member kListMicrovmsInput[]{kMost,
                                      kNext,
                                      {"imageIdentifier", &kIdentifier, false, In::query},
                                      {"imageVersion", &kNonBlank, false, In::query}};
constexpr Member kTokenInput[]{
    kMicrovm, {"expirationInMinutes", &kPositive, true}, {"allowedPorts", &kAllowedPorts, true}};
constexpr Member kShellTokenInput[]{kMicrovm, {"expirationInMinutes", &kPositive, true}};
constexpr Member kCreateImageInput[]{{"name", &kImageName, true},
                                     {"baseImageArn", &kNonBlank, true},
                                     {"baseImageVersion", &kNonBlank},
                                     {"buildRoleArn", &kRoleArn, true},
                                     {"codeArtifact", &kCodeArtifact, true},
                                     {"description", &kAnyText},
                                     {"logging", &kLogging},
                                     {"egressNetworkConnectors", &kImageConnectors},
                                     {"cpuConfigurations", &kCpus},
                                     {"resources", &kResources},
                                     {"additionalOsCapabilities", &kCapabilities},
                                     {"hooks", &kHooks},
                                     {"environmentVariables", &kEnvironment},
                                     {"tags", &kTags},
                                     {"clientToken", &kClientToken}};
constexpr Member kUpdateImageInput[]{kImage,
                                     {"baseImageArn", &kNonBlank, true},
                                     {"baseImageVersion", &kNonBlank},
                                     {"buildRoleArn", &kRoleArn, true},
                                     {"codeArtifact", &kCodeArtifact, true},
                                     {"description", &kAnyText},
                                     {"logging", &kLogging},
                                     {"egressNetworkConnectors", &kImageConnectors},
                                     {"cpuConfigurations", &kCpus},
                                     {"resources", &kResources},
                                     {"additionalOsCapabilities", &kCapabilities},
                                     {"hooks", &kHooks},
                                     {"environmentVariables", &kEnvironment},
                                     // An update leaves an image's tags as they are, but a client
                                     // that sends wrong ones is told.
                                     {"tags", &kTags},
                                     {"clientToken", &kClientToken}};
constexpr Member kImageInput[]{kImage};
constexpr Member kListImagesInput[]{kMost, kNext, {"nameFilter", &kAnyText, false, In::query}};
constexpr Member kVersionInput[]{kImage, kVersion};
constexpr Member kListVersionsInput[]{kImage, kMost, kNext};
constexpr Member kUpdateVersionInput[]{kImage, kVersion, {"status", &kStatus, true}};
constexpr Member kBuildInput[]{kImage, kVersion, {"buildId", &kNonBlank, true, In::label}};
constexpr Member kListBuildsInput[]{kImage,
                                    kVersion,
                                    kMost,
                                    kNext,
                                    {"architecture", &kAnyText, false, In::query},
                                    {"chipset", &kAnyText, false, In::query},
                                    {"chipsetGeneration", &kAnyText, false, In::query}};
constexpr Member kListManagedInput[]{kMost, kNext};
constexpr Member kTaggableMember{"Resource", &kTaggable, true, In::label};
constexpr Member kTagInput[]{kTaggableMember, {"Tags", &kTags, true}};
constexpr Member kUntagInput[]{kTaggableMember, {"tagKeys", &kTagKeys, true, In::query_list}};
constexpr Member kListTagsInput[]{kTaggableMember};

constexpr Operation kOperations[]{
    {"RunMicrovm", "POST", "/2025-09-09/microvms", 200, Carries::nothing, kRunInput},
    {"GetMicrovm", "GET", "/2025-09-09/microvms/{microvmIdentifier}", 200, Carries::guest_bytes,
     kMicrovmInput},
    {"ListMicrovms", "GET", "/2025-09-09/microvms", 200, Carries::nothing, kListMicrovmsInput},
    {"SuspendMicrovm", "POST", "/2025-09-09/microvms/{microvmIdentifier}/suspend", 200,
     Carries::guest_bytes, kMicrovmInput},
    {"ResumeMicrovm", "POST", "/2025-09-09/microvms/{microvmIdentifier}/resume", 200,
     Carries::guest_bytes, kMicrovmInput},
    {"TerminateMicrovm", "DELETE", "/2025-09-09/microvms/{microvmIdentifier}", 200,
     Carries::nothing, kMicrovmInput},
    {"CreateMicrovmAuthToken", "POST", "/2025-09-09/microvms/{microvmIdentifier}/auth-token", 200,
     Carries::nothing, kTokenInput},
    {"CreateMicrovmShellAuthToken", "POST",
     "/2025-09-09/microvms/{microvmIdentifier}/shell-auth-token", 200, Carries::nothing,
     kShellTokenInput},
    {"CreateMicrovmImage", "POST", "/2025-09-09/microvm-images", 201, Carries::nothing,
     kCreateImageInput},
    {"UpdateMicrovmImage", "PUT", "/2025-09-09/microvm-images/{imageIdentifier}", 200,
     Carries::nothing, kUpdateImageInput},
    {"GetMicrovmImage", "GET", "/2025-09-09/microvm-images/{imageIdentifier}", 200,
     Carries::nothing, kImageInput},
    {"ListMicrovmImages", "GET", "/2025-09-09/microvm-images", 200, Carries::nothing,
     kListImagesInput},
    {"DeleteMicrovmImage", "DELETE", "/2025-09-09/microvm-images/{imageIdentifier}", 200,
     Carries::nothing, kImageInput},
    {"GetMicrovmImageVersion", "GET",
     "/2025-09-09/microvm-images/{imageIdentifier}/versions/{imageVersion}", 200,
     Carries::guest_bytes, kVersionInput},
    {"ListMicrovmImageVersions", "GET", "/2025-09-09/microvm-images/{imageIdentifier}/versions",
     200, Carries::guest_bytes, kListVersionsInput},
    {"UpdateMicrovmImageVersion", "PATCH",
     "/2025-09-09/microvm-images/{imageIdentifier}/versions/{imageVersion}", 200,
     Carries::guest_bytes, kUpdateVersionInput},
    {"DeleteMicrovmImageVersion", "DELETE",
     "/2025-09-09/microvm-images/{imageIdentifier}/versions/{imageVersion}", 200, Carries::nothing,
     kVersionInput},
    {"GetMicrovmImageBuild", "GET",
     "/2025-09-09/microvm-images/{imageIdentifier}/versions/{imageVersion}/builds/{buildId}", 200,
     Carries::guest_bytes, kBuildInput},
    {"ListMicrovmImageBuilds", "GET",
     "/2025-09-09/microvm-images/{imageIdentifier}/versions/{imageVersion}/builds", 200,
     Carries::guest_bytes, kListBuildsInput},
    {"ListManagedMicrovmImages", "GET", "/2025-09-09/managed-microvm-images", 200, Carries::nothing,
     kListManagedInput},
    {"ListManagedMicrovmImageVersions", "GET",
     "/2025-09-09/managed-microvm-images/{imageIdentifier}/versions", 200, Carries::nothing,
     kListVersionsInput},
    {"TagResource", "POST", "/2017-03-31/tags/{Resource}", 204, Carries::nothing, kTagInput},
    {"UntagResource", "DELETE", "/2017-03-31/tags/{Resource}", 204, Carries::nothing, kUntagInput},
    {"ListTags", "GET", "/2017-03-31/tags/{Resource}", 200, Carries::nothing, kListTagsInput},
};

}  // namespace

std::vector<Operation> operations(bool extensions) {
  std::vector<Operation> table(std::begin(kOperations), std::end(kOperations));
  if (extensions) std::ranges::find(table, "RunMicrovm", &Operation::name)->input = kFreeRunInput;
  return table;
}

}  // namespace firebreak::api::lambda
