// The pages, which are built from `web/` whenever the Worker is bundled
// (cli/local/code/web-bundle.ts).
declare module 'sealpin:web' {
  export const web: {
    /** SHA-256 in hex of all pages. */
    readonly hash: string;
    /** `paths`: relative to the root; `scriptHash`: `sha256-…` of the document's only script. */
    readonly documents: readonly {
      readonly paths: readonly string[];
      readonly html: string;
      readonly scriptHash: string;
    }[];
    /** `loadsScripts`: whether the file is a script that loads another one. */
    readonly files: readonly {
      readonly path: string;
      readonly type: string;
      readonly text: string;
      readonly loadsScripts?: boolean;
    }[];
  };
}
