-- Returns how Argo CD judges a Subscription (the global `obj`): "Healthy", "Progressing" or "Degraded".
-- The rules are those of its customization for this kind; the text is ours.
local status = obj.status
if status == nil or status.conditions == nil then
  return "Progressing"
end

local function is_true(type_, reason)
  for _, condition in ipairs(status.conditions) do
    if condition.type == type_ and condition.status == "True" then
      if reason == nil or condition.reason == reason then
        return true
      end
    end
  end
  return false
end

-- An upgrade that waits for the approval that the user asked for is no reason to wait.
local held = obj.spec ~= nil
  and obj.spec.installPlanApproval == "Manual"
  and status.installedCSV ~= nil
  and is_true("InstallPlanPending", "RequiresApproval")

local pending = is_true("InstallPlanPending") and not held
local degraded = is_true("CatalogSourcesUnhealthy") or is_true("InstallPlanFailed") or is_true("ResolutionFailed")
for _, condition in ipairs(status.conditions) do
  if condition.type == "InstallPlanMissing" and condition.reason ~= "ReferencedInstallPlanNotFound" then
    degraded = true
  end
end

local state = status.state or ""
if state == "UpgradeFailed" then
  degraded = true
elseif state == "" or state == "UpgradeAvailable" then
  pending = true
elseif state == "UpgradePending" and not held then
  pending = true
end

if degraded then
  return "Degraded"
elseif pending then
  return "Progressing"
end
return "Healthy"
