// From a Dockerfile to what has to be done: needed stages only, variables replaced, triggers put
// in, the configuration of each stage known. Pure functions; any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/guest_ca.h"
#include "image/image_config.h"
#include "image/oci_layout.h"
#include "wire/dockerfile.h"

namespace firebreak::image {

struct PlanOptions {
  std::map<std::string, std::string> args;  // --build-arg
  std::string target;                       // a stage's name or number; empty: the last one
  std::string file_name = "Dockerfile";     // for messages
  std::string guest_ca;                     // sha256 of what commands trust as well; empty: nothing
};

// An image that FROM or --from names, once somebody has found it.
struct BaseImage {
  std::string key;  // changes whenever its content does
  ImageConfig config;
  CaMark ca = {};  // in its disk
  // Of an image that is no disk yet: they go onto an empty one, in a stage of their own.
  std::optional<std::vector<OciLayer>> layers;
};
using BaseImages = std::map<std::string, BaseImage>;  // by the name in the Dockerfile

// Where a stage, a copy or a mount takes files from.
struct FileSource {
  enum class Kind { nothing, context, stage, image };
  Kind kind = Kind::nothing;
  std::size_t stage = 0;  // in BuildPlan::stages
  std::string image;
  friend bool operator==(const FileSource&, const FileSource&) = default;
};

struct RunMount {
  wire::Mount mount;  // target absolute, source clean and relative
  FileSource source;
};
struct RunStep {
  // Whether the image has certificates of ours, or they are there for this command only.
  enum class Trust { own, in_image, lent };

  std::vector<std::string> argv;  // empty if there is a script
  std::string script;             // begins with #!: a file to be run
  std::shared_ptr<const EnvList> env;
  std::shared_ptr<const EnvList> proxies;  // given as well, but not part of the key
  std::string user;
  std::string workdir;
  std::vector<RunMount> mounts;
  Trust trust = Trust::own;
  std::string guest_ca;  // PlanOptions
};
struct InlineFile {
  std::string name;
  std::string content;
};
struct CopyStep {
  FileSource from;
  std::vector<std::string> sources;
  std::vector<InlineFile> files;
  std::string destination;  // absolute and clean
  bool into_directory = false;
  std::string chown;  // USER[:GROUP], known by the image
  std::string chmod;  // for FileMode
  std::vector<std::string> excludes;
  bool unpack = false;  // local archives among the sources
  bool link = false;
};
struct WorkdirStep {
  std::string path;
  std::string user;  // who owns what is made
};
// A layer of an image that comes from elsewhere.
struct LayerStep {
  std::string image;  // as the Dockerfile names it
  OciLayer layer;
};
struct ConfigStep {};  // changes nothing on the disk

struct BuildStep {
  wire::SourcePosition at;  // of the FROM, if it is a trigger
  std::string text;
  bool trigger = false;
  std::variant<RunStep, CopyStep, WorkdirStep, LayerStep, ConfigStep> action;
};

struct PlannedStage {
  std::string name;  // or "stage-N"
  wire::SourcePosition at;
  std::string text;
  FileSource base;  // nothing: scratch
  std::vector<BuildStep> steps;
  ImageConfig config;  // after the last step
  CaMark ca = {};      // in its disk
};

struct BuildPlan {
  std::vector<PlannedStage> stages;  // those that are needed, in order; the last is the result
  std::vector<std::string> missing;  // images to find first; the plan is complete if there are none
  std::vector<std::string> notes;    // for the log
};

// Code::invalid with the place in the Dockerfile. Images that `bases` does not have are listed in
// `missing`: find them and plan again, because their triggers may need further ones.
Result<BuildPlan> plan_build(const wire::Dockerfile& file, const PlanOptions& options,
                             const BaseImages& bases);

// What decides the result of a step beside what it stands on and what it copies: two steps with the
// same inputs do the same.
std::string step_inputs(const BuildStep& step);
// The key of the layer that a step makes. `content`: digests of what the step reads from elsewhere.
std::string layer_key(std::string_view parent, std::string_view inputs, std::string_view content);

}  // namespace firebreak::image
